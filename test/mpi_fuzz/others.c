// SPDX-License-Identifier: BSD-3-Clause
/*
 * Steps with messages that are not in batches: wildcards, shifts by MPI_Sendrecv, messages that are
 * too long for their receives, and MPI_PROC_NULL.
 */
#include "mpi_fuzz/fuzz.h"

enum {
    WILD_MAX = 40,
    WILD_TAGS = 3
};

/* -------------------------------------------------------------------------------------------------
 * Wildcards. All receives of a rank in such a step have wildcards of one kind: they take all of its
 * messages, those of one source (and tag) in order. */

typedef enum {
    ANY_BOTH,
    ANY_SOURCE, /* each tag as often as there are messages with it */
    ANY_TAG     /* each source */
} wild;

typedef struct {
    int source, target, tag;
    size_t elements;
    uint64_t seed;
} wild_message;

typedef struct {
    int count, basic;
    size_t largest;
    wild_message list[WILD_MAX];
    side in[WILD_MAX], out[WILD_MAX];
    MPI_Request requests[WILD_MAX], sends[WILD_MAX];
    MPI_Status statuses[WILD_MAX];
    int errors[WILD_MAX], received, sent;
} wild_batch;

static void wild_choose(wild_batch *t, const step *s, uint64_t *random)
{
    int ranks = s->where->sizes[0];
    t->count = 1 + below(random, WILD_MAX);
    t->basic = random_basic(random);
    for (int i = 0; i < t->count; ++i) {
        wild_message *m = &t->list[i];
        m->source = below(random, ranks);
        m->target = chance(random, 2) ? 0 : below(random, ranks);
        m->tag = below(random, WILD_TAGS);
        m->seed = seed_of(s->seed, 100 + (uint64_t) i);
        m->elements = random_elements(random, t->basic, chance(random, 6) ? 300000 : 20000);
        t->largest = m->elements > t->largest ? m->elements : t->largest;
    }
}

static void wild_send(const step *s, wild_batch *t, int i)
{
    wild_message *m = &t->list[i];
    uint64_t random = seed_of(m->seed, 1);
    side *b = &t->out[t->sent];
    side_make(b, t->basic, m->elements, chance(&random, 2), &random);
    side_fill(b, m->seed);
    log_words(s, "Isend to %d, tag %d: %s", m->target, m->tag, b->words);
    if (chance(&random, 4)) {
        TRY(s, MPI_Issend(b->at, b->count, b->type, m->target, m->tag, s->where->comm,
                          &t->sends[t->sent]));
    } else {
        TRY(s, MPI_Isend(b->at, b->count, b->type, m->target, m->tag, s->where->comm,
                         &t->sends[t->sent]));
    }
    ++t->sent;
}

/* how: 0: MPI_Irecv; 1: MPI_Recv; 2: MPI_Probe before it; 3: MPI_Mprobe */
static void wild_receive(const step *s, wild_batch *t, int source, int tag, int how)
{
    int i = t->received++;
    side *b = &t->in[i];
    MPI_Comm comm = s->where->comm;
    MPI_Message matched;
    MPI_Status probed;
    log_words(s, "receive (way %d) from %d, tag %d: %s", how, source, tag, b->words);
    t->requests[i] = MPI_REQUEST_NULL;
    if (how == 0) {
        TRY(s, MPI_Irecv(b->at, b->count, b->type, source, tag, comm, &t->requests[i]));
        return;
    }
    if (how == 2) {
        TRY(s, MPI_Probe(source, tag, comm, &probed));
        source = probed.MPI_SOURCE;
        tag = probed.MPI_TAG;
    } else if (how == 3) {
        TRY(s, MPI_Mprobe(source, tag, comm, &matched, &probed));
        t->errors[i] = MPI_Mrecv(b->at, b->count, b->type, &matched, &t->statuses[i]);
    }
    if (how != 3) {
        t->errors[i] = MPI_Recv(b->at, b->count, b->type, source, tag, comm, &t->statuses[i]);
    }
    if (how >= 2
        && (probed.MPI_SOURCE != t->statuses[i].MPI_SOURCE
            || probed.MPI_TAG != t->statuses[i].MPI_TAG)) {
        log_result(s, "another message than was probed");
    }
}

static void wild_complete(const step *s, wild_batch *t, uint64_t *random)
{
    MPI_Request pending[WILD_MAX];
    MPI_Status statuses[WILD_MAX];
    int errors[WILD_MAX], places[WILD_MAX], count = 0;
    for (int i = 0; i < t->received; ++i) {
        if (t->requests[i] != MPI_REQUEST_NULL) {
            places[count] = i;
            pending[count++] = t->requests[i];
        }
    }
    complete(s, pending, count, statuses, errors, false, random);
    for (int i = 0; i < count; ++i) {
        t->statuses[places[i]] = statuses[i];
        t->errors[places[i]] = errors[i];
    }
    complete(s, t->sends, t->sent, statuses, errors, false, random);
    for (int i = 0; i < t->sent; ++i) {
        if (errors[i] != MPI_SUCCESS) {
            log_result(s, "send %d: error %d", i, errors[i]);
        }
    }
}

/* Sorted by what MPI gives no order to: by source or tag, or by both */
static void wild_report(const step *s, wild_batch *t, wild by)
{
    for (int source = 0; source < s->where->sizes[0]; ++source) {
        for (int tag = 0; tag < (by == ANY_SOURCE ? WILD_TAGS : 1); ++tag) {
            for (int i = 0; i < t->received; ++i) {
                MPI_Status *status = &t->statuses[i];
                if (status->MPI_SOURCE != source || (by == ANY_SOURCE && status->MPI_TAG != tag)) {
                    continue;
                }
                MPI_Count bytes = 0;
                MPI_Get_elements_x(status, MPI_BYTE, &bytes);
                size_t elements = (size_t) bytes / basic_bytes(t->basic);
                log_result(s, "from %d tag %d error %d bytes %lld contents %016llx, outside %s",
                           source, status->MPI_TAG, error_class(t->errors[i]), (long long) bytes,
                           (unsigned long long) side_contents(&t->in[i], elements),
                           side_outside_untouched(&t->in[i]) ? "untouched" : "CHANGED");
            }
        }
    }
}

static void wild_receives(const step *s, wild_batch *t, wild by, bool late, uint64_t *random)
{
    int how = late ? 1 + below(random, 3) : 0;
    for (int i = 0; i < t->count; ++i) {
        wild_message *m = &t->list[i];
        if (m->target == s->where->rank) {
            uint64_t own = seed_of(m->seed, 2);
            side_make(&t->in[t->received], t->basic, t->largest, chance(&own, 2), &own);
            wild_receive(s, t, by == ANY_TAG ? m->source : MPI_ANY_SOURCE,
                         by == ANY_SOURCE ? m->tag : MPI_ANY_TAG, how);
        }
    }
}

void wildcards_start(step *s)
{
    uint64_t random = seed_of(s->seed, 1), own = seed_of(s->seed, 50 + (uint64_t) s->where->rank);
    wild_batch *t = calloc(1, sizeof *t);
    wild_choose(t, s, &random);
    wild by = (wild) below(&own, 3);
    bool late = chance(&own, 2);
    if (!late) {
        wild_receives(s, t, by, false, &own);
    }
    for (int i = 0; i < t->count; ++i) {
        if (t->list[i].source == s->where->rank) {
            wild_send(s, t, i);
        }
    }
    canary_flush();
    if (late) {
        wild_receives(s, t, by, true, &own);
    }
    wild_complete(s, t, &own);
    wild_report(s, t, by);
    /* No later message may meet the wildcards of a rank that is still here. */
    TRY(s, MPI_Barrier(s->where->comm));
    for (int i = 0; i < t->received; ++i) {
        side_free(&t->in[i]);
    }
    for (int i = 0; i < t->sent; ++i) {
        side_free(&t->out[i]);
    }
    free(t);
}

/* -------------------------------------------------------------------------------------------------
 * Shifts: each rank sends to one and receives from one, or MPI_PROC_NULL behind the ends. */

static void shift(const step *s, int distance, bool around, int number, uint64_t *random)
{
    int ranks = s->where->sizes[0], to = s->where->rank + distance,
        from = s->where->rank - distance;
    to = around ? (to + ranks) % ranks : to < 0 || to >= ranks ? MPI_PROC_NULL : to;
    from = around ? (from + ranks) % ranks : from < 0 || from >= ranks ? MPI_PROC_NULL : from;
    bool replace = chance(random, 2);
    int basic = random_basic(random), tag = (s->number * 3 + number) % 32768, code;
    size_t elements = random_elements(random, basic, 300000);
    uint64_t own = seed_of(s->seed, 1000 + (uint64_t) (number * 64 + s->where->rank));
    side out, in;
    MPI_Status status;
    side_make(&out, basic, elements, chance(&own, 2), &own);
    side_make(&in, basic, elements, chance(&own, 2), &own);
    side_fill(&out, own);
    log_words(s, "Sendrecv%s to %d, from %d, tag %d: %s", replace ? "_replace" : "", to, from, tag,
              out.words);
    if (replace) {
        code = MPI_Sendrecv_replace(out.at, out.count, out.type, to, tag, from, tag, s->where->comm,
                                    &status);
    } else {
        code = MPI_Sendrecv(out.at, out.count, out.type, to, tag, in.at, in.count, in.type, from,
                            tag, s->where->comm, &status);
    }
    log_status(s, "shift", &status, &in, error_class(code));
    log_result(s, "shift: hashes %016llx %016llx", (unsigned long long) side_hash(&out),
               (unsigned long long) side_hash(&in));
    side_free(&out);
    side_free(&in);
}

void shifts_start(step *s)
{
    uint64_t random = seed_of(s->seed, 1);
    int ranks = s->where->sizes[0], count = 1 + below(&random, 3);
    for (int i = 0; i < count; ++i) {
        int distance = below(&random, ranks + 1) - ranks / 2;
        distance = distance % ranks;
        bool around = chance(&random, 2);
        shift(s, distance, around, i, &random);
    }
}

/* -------------------------------------------------------------------------------------------------
 * Truncation: each rank sends the next one some messages, of which some are too long. The others
 * arrive whole, and so does whatever comes behind them. */

enum {
    CUT_MAX = 8
};

typedef struct {
    side out[CUT_MAX], in[CUT_MAX];
    size_t elements[CUT_MAX];
    bool cut[CUT_MAX];
    int count, basic;
} cut_batch;

static void cut_make(cut_batch *t, const step *s, uint64_t *random)
{
    bool never = fuzz_omits & SELF_CUT && s->where->sizes[0] == 1;
    size_t longest = fuzz_omits & LONG_CUT ? 1000 : 300000;
    t->count = 1 + below(random, CUT_MAX);
    t->basic = random_basic(random);
    for (int i = 0; i < t->count; ++i) {
        uint64_t own = seed_of(s->seed, 200 + (uint64_t) (i * 64 + s->where->rank));
        t->cut[i] = chance(random, 2) && !never;
        size_t elements = 2 + random_elements(random, t->basic, t->cut[i] ? longest : 300000);
        size_t room = elements + (size_t) below(random, 3);
        if (t->cut[i]) {
            room = chance(random, 3) ? 0 : random_below(random, elements);
            room += room == 0 && fuzz_omits & NO_ROOM_CUT;
        }
        side_make(&t->out[i], t->basic, elements, chance(&own, 2), &own);
        side_make(&t->in[i], t->basic, room, chance(&own, 2), &own);
        side_fill(&t->out[i], own);
    }
}

static void cut_report(const step *s, cut_batch *t, int i, const MPI_Status *status, int error)
{
    char name[32];
    snprintf(name, sizeof name, "%s %d", t->cut[i] ? "cut" : "whole", i);
    log_status(s, name, status, &t->in[i], error);
    if (!t->cut[i]) {
        log_result(s, "%s: hash %016llx", name, (unsigned long long) side_hash(&t->in[i]));
    } else if (!side_outside_untouched(&t->in[i])) {
        log_result(s, "%s: wrote outside of the buffer", name);
    }
}

void truncation_start(step *s)
{
    uint64_t random = seed_of(s->seed, 1);
    cut_batch *t = calloc(1, sizeof *t);
    int ranks = s->where->sizes[0], next = (s->where->rank + 1) % ranks;
    int before = (s->where->rank + ranks - 1) % ranks, errors[2 * CUT_MAX];
    bool late = chance(&random, 2);
    MPI_Request requests[2 * CUT_MAX];
    MPI_Status statuses[2 * CUT_MAX];
    cut_make(t, s, &random);
    for (int turn = 0; turn < 2; ++turn) {
        bool receiving = (turn == 1) == late;
        for (int i = 0; i < t->count; ++i) {
            int tag = (s->number * CUT_MAX + i / 2) % 32768;
            side *b = receiving ? &t->in[i] : &t->out[i];
            log_words(s, "%s %d, tag %d: %s%s", receiving ? "Irecv from" : "Isend to",
                      receiving ? before : next, tag, b->words, t->cut[i] ? " (too short)" : "");
            if (receiving) {
                TRY(s,
                    MPI_Irecv(b->at, b->count, b->type, before, tag, s->where->comm, &requests[i]));
            } else {
                TRY(s, MPI_Isend(b->at, b->count, b->type, next, tag, s->where->comm,
                                 &requests[t->count + i]));
            }
        }
    }
    complete(s, requests, 2 * t->count, statuses, errors, true, &random);
    for (int i = 0; i < t->count; ++i) {
        cut_report(s, t, i, &statuses[i], errors[i]);
        if (errors[t->count + i] != MPI_SUCCESS) {
            log_result(s, "send %d: error %d", i, errors[t->count + i]);
        }
    }
    TRY(s, MPI_Barrier(s->where->comm));
    for (int i = 0; i < t->count; ++i) {
        side_free(&t->out[i]);
        side_free(&t->in[i]);
    }
    free(t);
}

/* -------------------------------------------------------------------------------------------------
 * MPI_PROC_NULL, and receives that are cancelled since nothing matches them */

static void cancel(const step *s, uint64_t *random)
{
    MPI_Request request;
    MPI_Status status;
    side b;
    int source =
        chance(random, 3) ? MPI_ANY_SOURCE : below(random, s->where->sizes[!s->where->group]);
    side_make(&b, random_basic(random), 1 + random_elements(random, BASIC_BYTE, 20000) / 16, false,
              random);
    log_words(s, "Irecv from %d, Cancel", source);
    TRY(s, MPI_Irecv(b.at, b.count, b.type, source, 32767, s->where->comm, &request));
    TRY(s, MPI_Cancel(&request));
    int error = MPI_Wait(&request, &status), cancelled;
    MPI_Test_cancelled(&status, &cancelled);
    log_result(s, "cancelled %d error %d hash %016llx", cancelled, error_class(error),
               (unsigned long long) side_hash(&b));
    side_free(&b);
}

void nowhere_start(step *s)
{
    uint64_t random = seed_of(s->seed, 60 + (uint64_t) s->where->rank);
    MPI_Comm comm = s->where->comm;
    MPI_Status status;
    MPI_Request request;
    MPI_Message matched;
    int there = 0, value = 7;
    switch (below(&random, 5)) {
    case 0:
        TRY(s, MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 5, comm, &status));
        break;
    case 1:
        TRY(s, MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, comm, &request));
        TRY(s, MPI_Wait(&request, &status));
        break;
    case 2:
        TRY(s, MPI_Iprobe(MPI_PROC_NULL, 4, comm, &there, &status));
        log_result(s, "probe of nowhere: %d", there);
        break;
    case 3:
        TRY(s, MPI_Mprobe(MPI_PROC_NULL, 3, comm, &matched, &status));
        log_result(s, "no process's message %d", matched == MPI_MESSAGE_NO_PROC);
        TRY(s, MPI_Mrecv(&value, 1, MPI_INT, &matched, &status));
        break;
    default:
        TRY(s, MPI_Issend(&value, 1, MPI_INT, MPI_PROC_NULL, 5, comm, &request));
        TRY(s, MPI_Wait(&request, MPI_STATUS_IGNORE));
        TRY(s, MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 5, comm, &status));
    }
    int count;
    MPI_Get_count(&status, MPI_INT, &count);
    log_result(s, "nowhere: source %d tag %d count %d value %d", status.MPI_SOURCE, status.MPI_TAG,
               count, value);
    cancel(s, &random);
}
