// SPDX-License-Identifier: BSD-3-Clause
/*
 * Partitioned messages (MPI 4, chapter 4). The ends cut a message into different numbers of
 * partitions; the sender makes these ready in any order, some in the start of the step and the
 * others in its finish; the receiver looks at partitions as they arrive. Each message is started
 * several times, with new contents. Messages of the other kind are under way beside them.
 *
 * When a partition arrives is open. So the hash of a partition is taken when it is told to be
 * there, and is logged in the end.
 */
#include "mpi_fuzz/fuzz.h"

#if FUZZ_MPI_4

#include <pthread.h>

enum {
    MESSAGES_MAX = 6,
    PARTS_MAX = 16,
    ROUNDS_MAX = 4,
    TAGS = 3,
    FIRST_TAG = 16384, /* behind the tags of other steps */
    BESIDE_TAG = 8192, /* more than that, where messages beside must have tags of their own */
    BESIDE_BYTES = 3000,
    LARGEST = 2000000,
    THREADS = 3
};

typedef struct {
    int group, source, target, tag, basic;
    int out_parts, in_parts;
    int unit; /* elements: each partition of both ends has some of them */
    uint64_t seed;
    bool sends, receives; /* this rank's part */
    bool beside;          /* with a message of the other kind */
    bool unstarted;
    side out, in, beside_out, beside_in;
    MPI_Request send, receive, beside_send, beside_receive;
    bool ready[PARTS_MAX], arrived[PARTS_MAX];
    uint64_t hashes[PARTS_MAX]; /* of partitions that have arrived */
} parted;

typedef struct {
    int count, rounds;
    parted list[MESSAGES_MAX];
    uint64_t random; /* this rank's own */
} batch;

/* ------------------------------------------------------------------------------------------------
 * Plan of a step */

static int common_divisor(int a, int b)
{
    while (b != 0) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Returns whether elements of the basic type lie behind each other without gaps. */
static bool is_dense(int basic)
{
    return strcmp(basic_name(basic), "double+int") != 0
           && strcmp(basic_name(basic), "double+int+short") != 0;
}

static void choose_parts(parted *p, uint64_t *random)
{
    p->out_parts = 1 + below(random, chance(random, 3) ? 2 : PARTS_MAX);
    p->in_parts = chance(random, 2) ? p->out_parts : 1 + below(random, PARTS_MAX);
    do {
        p->basic = random_basic(random);
    } while (fuzz_omits & PART_LAYOUTS && !is_dense(p->basic));
    /* Partitions of the sender have a length near the limits of transports. */
    size_t part = random_elements(random, p->basic, (size_t) (LARGEST / p->out_parts));
    int share = p->in_parts / common_divisor(p->out_parts, p->in_parts);
    p->unit = (int) part / share;
    if (p->unit == 0 && part > 0) {
        p->unit = 1;
    }
}

static void choose(parted *p, const step *s, int number)
{
    const communicator *c = s->where;
    uint64_t random = p->seed = seed_of(s->seed, 100 + (uint64_t) number);
    p->group = c->inter && chance(&random, 2);
    p->source = below(&random, c->sizes[p->group]);
    p->target = below(&random, c->sizes[c->inter ? !p->group : 0]);
    p->tag = FIRST_TAG + s->number * TAGS + below(&random, TAGS);
    choose_parts(p, &random);
    p->beside = chance(&random, 3);
    p->unstarted = chance(&random, 12);
    p->sends = p->source == c->rank && (!c->inter || p->group == c->group);
    p->receives = p->target == c->rank && (!c->inter || p->group != c->group);
    p->send = p->receive = p->beside_send = p->beside_receive = MPI_REQUEST_NULL;
}

/* Makes one element of the type out of n. */
static void gather_elements(side *b, int n)
{
    MPI_Datatype old = b->type;
    if (n > 1 && b->count % n == 0) {
        MPI_Type_contiguous(n, old, &b->type);
        MPI_Type_commit(&b->type);
        MPI_Type_free(&old);
        b->count /= n;
    }
}

/* The buffer of one end. Where layouts are left out, types have no gaps and one size at both ends,
 * unless the whole message is one element of its type. */
static void make_side(const parted *p, side *b, bool of_sender, uint64_t *random)
{
    int parts = of_sender ? p->out_parts : p->in_parts;
    int share =
        (of_sender ? p->in_parts : p->out_parts) / common_divisor(p->out_parts, p->in_parts);
    size_t elements = (size_t) p->unit * (size_t) share;
    bool alone = p->out_parts == 1 && p->in_parts == 1 && p->unit > 0;
    uint64_t both = seed_of(p->seed, 3);
    bool gathered = chance(&both, 3);
    bool plain = chance(random, 2) || (fuzz_omits & PART_LAYOUTS && !alone);
    side_make_copies(b, p->basic, elements, parts, plain, random);
    if (fuzz_omits & PART_LAYOUTS && (alone || gathered)) {
        gather_elements(b, alone ? b->count : p->unit);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Partitions */

/* The hash of the elements of one partition */
static uint64_t partition_hash(const parted *p, int part)
{
    const side *b = &p->in;
    MPI_Aint lower, extent;
    int bytes = (int) (b->elements / (size_t) p->in_parts * basic_bytes(p->basic)), position = 0;
    unsigned char *stream = malloc((size_t) bytes + 1);
    MPI_Type_get_extent(b->type, &lower, &extent);
    if (bytes > 0) {
        MPI_Pack((char *) b->at + part * b->count * extent, b->count, b->type, stream, bytes,
                 &position, MPI_COMM_WORLD);
    }
    uint64_t hash = hash_bytes(stream, (size_t) bytes);
    free(stream);
    return hash;
}

/* Looks whether a partition has arrived. */
static bool look(const step *s, parted *p, int part)
{
    int flag = 0;
    if (!p->arrived[part]) {
        TRY(s, MPI_Parrived(p->receive, part, &flag));
        if (flag) {
            p->arrived[part] = true;
            p->hashes[part] = partition_hash(p, part);
        }
    }
    return p->arrived[part];
}

static bool can_look(const parted *p)
{
    return p->receives && !p->unstarted
           && (p->out_parts == p->in_parts || !(fuzz_omits & PART_COUNTS));
}

/* The partitions that are not ready yet, in a random order; returns their number. */
static int unready(const parted *p, int *order, uint64_t *random)
{
    int count = 0;
    for (int i = 0; i < p->out_parts; ++i) {
        if (!p->ready[i]) {
            int place = below(random, ++count);
            order[count - 1] = order[place];
            order[place] = i;
        }
    }
    return count;
}

/* The number of partitions from this one on that are not ready yet, at most `most` */
static int run_length(const parted *p, int first, int most)
{
    int length = 1;
    while (length < most && first + length < p->out_parts && !p->ready[first + length]) {
        ++length;
    }
    return length;
}

/* Makes at most `most` partitions ready, by one of the three calls. Returns their number. */
static int make_ready(const step *s, parted *p, const int *order, int most, uint64_t *random)
{
    static const char *const names[] = {"", "_range", "_list"};
    int how = below(random, 3), list[PARTS_MAX], count = 1, first = order[0];
    if (how == 1) {
        count = run_length(p, first, most);
    } else if (how == 2) {
        count = 1 + below(random, most);
    }
    for (int i = 0; i < count; ++i) {
        list[i] = how == 1 ? first + i : order[i];
        p->ready[list[i]] = true;
    }
    log_words(s, "Pready%s to %d, tag %d: %d partitions, %d first", names[how], p->target, p->tag,
              count, first);
    if (how == 0) {
        TRY(s, MPI_Pready(first, p->send));
    } else if (how == 1) {
        TRY(s, MPI_Pready_range(first, first + count - 1, p->send));
    } else {
        TRY(s, MPI_Pready_list(count, list, p->send));
    }
    return count;
}

/* Makes `count` partitions ready, or all that are not yet. */
static void ready_some(const step *s, parted *p, int count, uint64_t *random)
{
    int order[PARTS_MAX], left = unready(p, order, random);
    count = count < left ? count : left;
    while (count > 0) {
        count -= make_ready(s, p, order, count, random);
        unready(p, order, random);
    }
}

/* A thread's share of the partitions: every one whose place in the order belongs to it */
typedef struct {
    const step *s;
    parted *p;
    int order[PARTS_MAX], count, first, by;
} share;

static void *ready_share(void *argument)
{
    share *t = argument;
    for (int i = t->first; i < t->count; i += t->by) {
        TRY(t->s, MPI_Pready(t->order[i], t->p->send));
    }
    return NULL;
}

static void ready_by_threads(const step *s, parted *p, uint64_t *random)
{
    pthread_t threads[THREADS];
    share shares[THREADS];
    shares[0].count = unready(p, shares[0].order, random);
    log_words(s, "Pready to %d, tag %d: %d partitions by %d threads", p->target, p->tag,
              shares[0].count, THREADS);
    for (int i = 0; i < THREADS; ++i) {
        shares[i] = shares[0];
        shares[i].s = s;
        shares[i].p = p;
        shares[i].first = i;
        shares[i].by = THREADS;
        if (fuzz_serial) {
            ready_share(&shares[i]);
        } else {
            CHECK(pthread_create(&threads[i], NULL, ready_share, &shares[i]) == 0, "no thread");
        }
    }
    for (int i = 0; i < THREADS && !fuzz_serial; ++i) {
        pthread_join(threads[i], NULL);
    }
    memset(p->ready, true, sizeof p->ready);
}

/* ------------------------------------------------------------------------------------------------
 * Requests */

static void make_receive(const step *s, parted *p)
{
    uint64_t random = seed_of(p->seed, 2);
    make_side(p, &p->in, false, &random);
    log_words(s, "Precv_init from %d, tag %d: %d partitions of %s", p->source, p->tag, p->in_parts,
              p->in.words);
    TRY(s, MPI_Precv_init(p->in.at, p->in_parts, p->in.count, p->in.type, p->source, p->tag,
                          s->where->comm, MPI_INFO_NULL, &p->receive));
}

static void make_send(const step *s, parted *p)
{
    uint64_t random = seed_of(p->seed, 1);
    make_side(p, &p->out, true, &random);
    log_words(s, "Psend_init to %d, tag %d: %d partitions of %s", p->target, p->tag, p->out_parts,
              p->out.words);
    TRY(s, MPI_Psend_init(p->out.at, p->out_parts, p->out.count, p->out.type, p->target, p->tag,
                          s->where->comm, MPI_INFO_NULL, &p->send));
}

static void begin_beside(const step *s, parted *p)
{
    uint64_t random = seed_of(p->seed, 4);
    int basic = random_basic(&random), tag = p->tag + (fuzz_omits & PART_TAGS ? BESIDE_TAG : 0);
    size_t elements = random_elements(&random, basic, BESIDE_BYTES);
    if (p->beside && p->receives) {
        uint64_t own = seed_of(p->seed, 5);
        side_make(&p->beside_in, basic, elements, chance(&own, 2), &own);
        TRY(s, MPI_Irecv(p->beside_in.at, p->beside_in.count, p->beside_in.type, p->source, tag,
                         s->where->comm, &p->beside_receive));
    }
    if (p->beside && p->sends) {
        uint64_t own = seed_of(p->seed, 6);
        side_make(&p->beside_out, basic, elements, chance(&own, 2), &own);
        side_fill(&p->beside_out, p->seed);
        TRY(s, MPI_Isend(p->beside_out.at, p->beside_out.count, p->beside_out.type, p->target, tag,
                         s->where->comm, &p->beside_send));
    }
}

static void end_beside(const step *s, batch *t)
{
    MPI_Request requests[2 * MESSAGES_MAX];
    MPI_Status statuses[2 * MESSAGES_MAX];
    int errors[2 * MESSAGES_MAX], count = 0;
    for (int i = 0; i < t->count; ++i) {
        parted *p = &t->list[i];
        if (p->beside && p->receives) {
            requests[count++] = p->beside_receive;
        }
        if (p->beside && p->sends) {
            requests[count++] = p->beside_send;
        }
    }
    complete(s, requests, count, statuses, errors, false, &t->random);
    count = 0;
    for (int i = 0; i < t->count; ++i) {
        parted *p = &t->list[i];
        if (p->beside && p->receives) {
            log_status(s, "beside", &statuses[count], &p->beside_in, errors[count]);
            log_result(s, "beside: hash %016llx", (unsigned long long) side_hash(&p->beside_in));
            side_free(&p->beside_in);
            ++count;
        }
        if (p->beside && p->sends) {
            side_free(&p->beside_out);
            ++count;
        }
    }
}

/* The requests that are started, and what they belong to */
static int gather(batch *t, MPI_Request *requests, parted **of)
{
    int count = 0;
    for (int i = 0; i < t->count; ++i) {
        parted *p = &t->list[i];
        if (p->sends && !p->unstarted) {
            of[count] = p;
            requests[count++] = p->send;
        }
        if (p->receives && !p->unstarted) {
            of[count] = p;
            requests[count++] = p->receive;
        }
    }
    return count;
}

static void start_all(const step *s, batch *t, int round)
{
    MPI_Request requests[2 * MESSAGES_MAX];
    parted *of[2 * MESSAGES_MAX];
    int count = gather(t, requests, of), turn = below(&t->random, 2 * MESSAGES_MAX);
    for (int i = 0; i < t->count; ++i) {
        parted *p = &t->list[i];
        memset(p->ready, 0, sizeof p->ready);
        memset(p->arrived, 0, sizeof p->arrived);
        if (p->sends && !p->unstarted) {
            side_fill(&p->out, seed_of(p->seed, 10 + (uint64_t) round));
        }
    }
    if (!(fuzz_omits & PART_STARTALL) && chance(&t->random, 2)) {
        log_words(s, "round %d: Startall of %d requests", round, count);
        TRY(s, MPI_Startall(count, requests));
        return;
    }
    log_words(s, "round %d: Start of %d requests", round, count);
    for (int i = 0; i < count; ++i) {
        TRY(s, MPI_Start(&requests[(i + turn) % count]));
    }
}

static void end_round(const step *s, batch *t, int round)
{
    MPI_Request requests[2 * MESSAGES_MAX];
    MPI_Status statuses[2 * MESSAGES_MAX];
    int errors[2 * MESSAGES_MAX], count;
    parted *of[2 * MESSAGES_MAX];
    count = gather(t, requests, of);
    complete_started(s, requests, count, statuses, errors, &t->random);
    for (int i = 0; i < count; ++i) {
        parted *p = of[i];
        char name[80];
        if (requests[i] == p->send && errors[i] != MPI_SUCCESS) {
            log_result(s, "round %d, to %d tag %d: error %d", round, p->target, p->tag, errors[i]);
        }
        if (requests[i] != p->receive) {
            continue;
        }
        snprintf(name, sizeof name, "round %d, from %d tag %d", round, p->source, p->tag);
        log_status(s, name, &statuses[i], &p->in, errors[i]);
        log_result(s, "%s: hash %016llx", name, (unsigned long long) side_hash(&p->in));
        for (int part = 0; part < p->in_parts; ++part) {
            uint64_t hash = p->arrived[part] ? p->hashes[part] : partition_hash(p, part);
            log_result(s, "%s: partition %d %016llx", name, part, (unsigned long long) hash);
        }
    }
    /* All have received everything, and senders may change their buffers. */
    if (fuzz_omits & PART_AGAIN) {
        TRY(s, MPI_Barrier(s->where->comm));
    }
}

/* ------------------------------------------------------------------------------------------------
 * Steps */

void partitioned_begin(void)
{
    MPI_Request requests[2];
    char out = 1, in = 0;
    if (!(fuzz_omits & PART_FIRST)) {
        return;
    }
    MPI_Precv_init(&in, 1, 1, MPI_CHAR, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &requests[0]);
    MPI_Psend_init(&out, 1, 1, MPI_CHAR, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &requests[1]);
    MPI_Start(&requests[0]);
    MPI_Start(&requests[1]);
    MPI_Pready(0, requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    CHECK(in == 1, "the first partitioned message is wrong");
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A message to nobody is complete as soon as all of its partitions are ready. */
static void to_nobody(const step *s)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    char bytes[8] = "nothing";
    if (fuzz_omits & PART_NOWHERE) {
        return;
    }
    TRY(s, MPI_Psend_init(bytes, 2, 4, MPI_CHAR, MPI_PROC_NULL, FIRST_TAG, s->where->comm,
                          MPI_INFO_NULL, &requests[0]));
    TRY(s, MPI_Precv_init(bytes, 2, 4, MPI_CHAR, MPI_PROC_NULL, FIRST_TAG, s->where->comm,
                          MPI_INFO_NULL, &requests[1]));
    TRY(s, MPI_Start(&requests[0]));
    TRY(s, MPI_Start(&requests[1]));
    TRY(s, MPI_Pready_range(0, 1, requests[0]));
    TRY(s, MPI_Waitall(2, requests, statuses));
    log_status(s, "from nobody", &statuses[1], NULL, MPI_SUCCESS);
    TRY(s, MPI_Request_free(&requests[0]));
    TRY(s, MPI_Request_free(&requests[1]));
}

void partitioned_start(step *s)
{
    uint64_t random = seed_of(s->seed, 1);
    batch *t = s->state = calloc(1, sizeof *t);
    t->count = 1 + below(&random, MESSAGES_MAX);
    t->rounds = 1 + below(&random, ROUNDS_MAX);
    t->random = seed_of(s->seed, 60 + (uint64_t) s->where->rank);
    if (chance(&random, 4)) {
        to_nobody(s);
    }
    for (int i = 0; i < t->count; ++i) {
        choose(&t->list[i], s, i);
        if (t->list[i].receives) {
            make_receive(s, &t->list[i]);
        }
        if (t->list[i].sends) {
            make_send(s, &t->list[i]);
        }
    }
    start_all(s, t, 0);
    for (int i = 0; i < t->count; ++i) {
        parted *p = &t->list[i];
        begin_beside(s, p);
        if (p->sends && !p->unstarted) {
            ready_some(s, p, below(&t->random, p->out_parts + 1), &t->random);
        }
    }
    for (int i = 0; i < t->count; ++i) {
        for (int part = 0; can_look(&t->list[i]) && part < t->list[i].in_parts; ++part) {
            look(s, &t->list[i], part);
        }
    }
}

/* Makes all that is left ready; may wait until partitions have arrived, from the last one on. */
static void go_on(const step *s, batch *t)
{
    for (int i = 0; i < t->count; ++i) {
        parted *p = &t->list[i];
        bool by_threads = fuzz_threads && chance(&t->random, 2);
        if (!p->sends || p->unstarted) {
            continue;
        }
        if (by_threads) {
            ready_by_threads(s, p, &t->random);
        } else {
            ready_some(s, p, p->out_parts, &t->random);
        }
    }
    canary_flush();
    for (int i = 0; i < t->count; ++i) {
        parted *p = &t->list[i];
        if (!can_look(p) || chance(&t->random, 2)) {
            continue;
        }
        log_words(s, "Parrived from %d, tag %d: all partitions", p->source, p->tag);
        for (int part = p->in_parts - 1; part >= 0; --part) {
            while (!look(s, p, part)) {
            }
        }
    }
}

void partitioned_finish(step *s)
{
    batch *t = s->state;
    for (int round = 0; round < t->rounds; ++round) {
        if (round > 0) {
            start_all(s, t, round);
        }
        go_on(s, t);
        end_round(s, t, round);
    }
    end_beside(s, t);
    for (int i = 0; i < t->count; ++i) {
        parted *p = &t->list[i];
        if (p->sends) {
            TRY(s, MPI_Request_free(&p->send));
            side_free(&p->out);
        }
        if (p->receives) {
            TRY(s, MPI_Request_free(&p->receive));
            side_free(&p->in);
        }
    }
    free(t);
}

#endif
