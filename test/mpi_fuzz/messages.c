// SPDX-License-Identifier: BSD-3-Clause
/*
 * A batch of messages among the ranks of a communicator. First each rank posts its early receives,
 * then it sends (those messages first whose receives are early), then it makes its late receives,
 * and then, or behind a later step, it completes everything. A blocking send is for early receives
 * only. Messages of one source and tag are sent in the order in which their receives are posted, so
 * it is known which receive gets which message.
 */
#include "mpi_fuzz/fuzz.h"

enum {
    MESSAGES_MAX = 24,
    TAGS = 3,
    LARGEST_BUFFERED = 16384
};

typedef enum {
    SEND,
    SSEND,
    BSEND,
    RSEND,
    LAST_BLOCKING = RSEND,
    ISEND,
    ISSEND,
    IBSEND,
    IRSEND,
    SEND_INIT,
    SSEND_INIT,
    BSEND_INIT,
    SENDS
} send_way;

typedef enum {
    IRECV,
    RECV_INIT,
    LAST_EARLY = RECV_INIT,
    RECV,
    LATE_IRECV,
    PROBED,
    IPROBED,
    MPROBED,
    IMPROBED,
    RECEIVES
} receive_way;

static const char *const send_names[] = {"Send",      "Ssend",      "Bsend",     "Rsend",
                                         "Isend",     "Issend",     "Ibsend",    "Irsend",
                                         "Send_init", "Ssend_init", "Bsend_init"};
static const char *const receive_names[] = {"Irecv", "Recv_init", "Recv",   "late Irecv",
                                            "Probe", "Iprobe",    "Mprobe", "Improbe"};

typedef struct {
    int from_group, source, target, tag, basic;
    size_t elements;
    uint64_t seed;
    send_way how;
    receive_way taken;
    bool sends, receives; /* this rank's part */
    side out, in;
    MPI_Request send_request, receive_request;
    MPI_Status status;
    int error;
    bool persistent, freed;
} message;

typedef struct {
    int count, round;
    uint64_t random;
    message list[MESSAGES_MAX];
} batch;

static bool early(const message *m)
{
    return m->taken <= LAST_EARLY;
}

/* -------------------------------------------------------------------------------------------------
 * What is to happen */

static void choose(message *m, const step *s, int number)
{
    uint64_t random = seed_of(s->seed, 100 + (uint64_t) number);
    const communicator *c = s->where;
    memset(m, 0, sizeof *m);
    m->seed = random;
    m->from_group = c->inter && chance(&random, 2);
    m->source = below(&random, c->sizes[m->from_group]);
    m->target = below(&random, c->sizes[c->inter ? !m->from_group : 0]);
    m->tag = (s->number * TAGS + below(&random, TAGS)) % 32768;
    m->basic = random_basic(&random);
    m->elements = random_elements(&random, m->basic, 3000000);
    m->how = (send_way) below(&random, SENDS);
    m->taken = (receive_way) below(&random, RECEIVES);
    size_t bytes = m->elements * basic_bytes(m->basic);
    if (!early(m) && (m->how <= LAST_BLOCKING || m->how == IRSEND)) {
        m->how = m->how == BSEND ? IBSEND : SEND_INIT;
    }
    bool buffered = m->how == BSEND || m->how == IBSEND || m->how == BSEND_INIT;
    if (buffered && (bytes > LARGEST_BUFFERED || s->lane > 0)) {
        m->how = ISEND;
    }
    m->sends = m->source == c->rank && (!c->inter || m->from_group == c->group);
    m->receives = m->target == c->rank && (!c->inter || m->from_group != c->group);
    m->send_request = m->receive_request = MPI_REQUEST_NULL;
    m->persistent = m->how >= SEND_INIT;
}

static void prepare(message *m)
{
    uint64_t random = seed_of(m->seed, 1);
    if (m->sends) {
        side_make(&m->out, m->basic, m->elements, chance(&random, 2), &random);
        side_fill(&m->out, m->seed);
    }
    random = seed_of(m->seed, 2);
    if (m->receives) {
        size_t more = chance(&random, 3) ? (size_t) below(&random, 70) : 0;
        side_make(&m->in, m->basic, m->elements + more, chance(&random, 2), &random);
    }
}

/* -------------------------------------------------------------------------------------------------
 * What happens */

static void send(const step *s, message *m)
{
    MPI_Comm comm = s->where->comm;
    const side *b = &m->out;
    MPI_Request *r = &m->send_request;
    log_words(s, "%s to %d, tag %d: %s", send_names[m->how], m->target, m->tag, b->words);
    if (m->how == BSEND || m->how == IBSEND || m->how == BSEND_INIT) {
        buffered_room(m->elements * basic_bytes(m->basic));
    }
    switch (m->how) {
    case SEND:
        TRY(s, MPI_Send(b->at, b->count, b->type, m->target, m->tag, comm));
        break;
    case SSEND:
        TRY(s, MPI_Ssend(b->at, b->count, b->type, m->target, m->tag, comm));
        break;
    case BSEND:
        TRY(s, MPI_Bsend(b->at, b->count, b->type, m->target, m->tag, comm));
        break;
    case RSEND:
        TRY(s, MPI_Rsend(b->at, b->count, b->type, m->target, m->tag, comm));
        break;
    case ISSEND:
        TRY(s, MPI_Issend(b->at, b->count, b->type, m->target, m->tag, comm, r));
        break;
    case IBSEND:
        TRY(s, MPI_Ibsend(b->at, b->count, b->type, m->target, m->tag, comm, r));
        break;
    case IRSEND:
        TRY(s, MPI_Irsend(b->at, b->count, b->type, m->target, m->tag, comm, r));
        break;
    case SEND_INIT:
        TRY(s, MPI_Send_init(b->at, b->count, b->type, m->target, m->tag, comm, r));
        break;
    case SSEND_INIT:
        TRY(s, MPI_Ssend_init(b->at, b->count, b->type, m->target, m->tag, comm, r));
        break;
    case BSEND_INIT:
        TRY(s, MPI_Bsend_init(b->at, b->count, b->type, m->target, m->tag, comm, r));
        break;
    default:
        TRY(s, MPI_Isend(b->at, b->count, b->type, m->target, m->tag, comm, r));
    }
    if (m->persistent) {
        TRY(s, MPI_Start(r));
    }
}

static void receive_early(const step *s, message *m)
{
    side *b = &m->in;
    MPI_Comm comm = s->where->comm;
    log_words(s, "%s from %d, tag %d: %s", receive_names[m->taken], m->source, m->tag, b->words);
    if (m->taken == RECV_INIT) {
        TRY(s,
            MPI_Recv_init(b->at, b->count, b->type, m->source, m->tag, comm, &m->receive_request));
        TRY(s, MPI_Start(&m->receive_request));
    } else {
        TRY(s, MPI_Irecv(b->at, b->count, b->type, m->source, m->tag, comm, &m->receive_request));
    }
}

static void receive_matched(const step *s, message *m)
{
    side *b = &m->in;
    MPI_Comm comm = s->where->comm;
    MPI_Message matched;
    MPI_Status probed;
    int there = m->taken == MPROBED;
    if (there) {
        TRY(s, MPI_Mprobe(m->source, m->tag, comm, &matched, &probed));
    }
    while (!there) {
        TRY(s, MPI_Improbe(m->source, m->tag, comm, &there, &matched, &probed));
    }
    log_status(s, "matched probe", &probed, b, MPI_SUCCESS);
    if (m->seed & 2) {
        TRY(s, MPI_Imrecv(b->at, b->count, b->type, &matched, &m->receive_request));
    } else {
        m->error = error_class(MPI_Mrecv(b->at, b->count, b->type, &matched, &m->status));
    }
}

static void receive_late(const step *s, message *m)
{
    side *b = &m->in;
    MPI_Comm comm = s->where->comm;
    int there = 0;
    MPI_Status probed;
    log_words(s, "%s from %d, tag %d: %s", receive_names[m->taken], m->source, m->tag, b->words);
    switch (m->taken) {
    case MPROBED:
    case IMPROBED:
        receive_matched(s, m);
        return;
    case LATE_IRECV:
        TRY(s, MPI_Irecv(b->at, b->count, b->type, m->source, m->tag, comm, &m->receive_request));
        return;
    case PROBED:
        TRY(s, MPI_Probe(m->source, m->tag, comm, &probed));
        log_status(s, "probe", &probed, b, MPI_SUCCESS);
        break;
    case IPROBED:
        while (!there) {
            TRY(s, MPI_Iprobe(m->source, m->tag, comm, &there, &probed));
        }
        log_status(s, "probe", &probed, b, MPI_SUCCESS);
        break;
    default:
        break;
    }
    m->error = error_class(MPI_Recv(b->at, b->count, b->type, m->source, m->tag, comm, &m->status));
}

static void do_sends(const step *s, batch *t, bool to_early)
{
    for (int i = 0; i < t->count; ++i) {
        if (t->list[i].sends && early(&t->list[i]) == to_early) {
            send(s, &t->list[i]);
        }
    }
}

/* Frees types, and requests of sends, while operations are pending. */
static void free_early(const step *s, message *m)
{
    if (m->sends && (m->seed >> 8) % 4 == 0) {
        side_free_type(&m->out);
    }
    if (m->send_request != MPI_REQUEST_NULL && !m->persistent && (m->seed >> 11) % 8 == 0) {
        log_words(s, "Request_free of a send to %d", m->target);
        TRY(s, MPI_Request_free(&m->send_request));
        m->freed = true;
    }
}

void messages_start(step *s)
{
    batch *t = calloc(1, sizeof *t);
    bool ready = false;
    s->state = t;
    t->random = seed_of(s->seed, 1);
    t->count = 1 + below(&t->random, chance(&t->random, 3) ? MESSAGES_MAX : 6);
    for (int i = 0; i < t->count; ++i) {
        choose(&t->list[i], s, i);
        ready = ready || t->list[i].how == RSEND || t->list[i].how == IRSEND;
        prepare(&t->list[i]);
        if (t->list[i].receives && early(&t->list[i])) {
            receive_early(s, &t->list[i]);
        }
    }
    if (ready) {
        TRY(s, MPI_Barrier(s->where->comm));
    }
    do_sends(s, t, true);
    do_sends(s, t, false);
    for (int i = 0; i < t->count; ++i) {
        if (t->list[i].receives && !early(&t->list[i])) {
            receive_late(s, &t->list[i]);
        }
    }
    for (int i = 0; i < t->count; ++i) {
        free_early(s, &t->list[i]);
    }
}

/* Gathers requests. Those of persistent operations are not null when they are complete. */
static int gather(batch *t, bool persistent, MPI_Request **from, MPI_Request *requests)
{
    int count = 0;
    for (int i = 0; i < t->count; ++i) {
        message *m = &t->list[i];
        if (m->send_request != MPI_REQUEST_NULL && m->persistent == persistent) {
            from[count++] = &m->send_request;
        }
        if (m->receive_request != MPI_REQUEST_NULL && (m->taken == RECV_INIT) == persistent) {
            from[count++] = &m->receive_request;
        }
    }
    for (int i = 0; i < count; ++i) {
        requests[i] = *from[i];
    }
    return count;
}

static void report(const step *s, batch *t)
{
    for (int i = 0; i < t->count; ++i) {
        message *m = &t->list[i];
        char name[64];
        if (m->receives) {
            snprintf(name, sizeof name, "message %d from %d tag %d", i, m->source, m->tag);
            log_status(s, name, &m->status, &m->in, m->error);
            log_result(s, "%s: hash %016llx", name, (unsigned long long) side_hash(&m->in));
        }
        if (m->sends && !m->receives && m->error != MPI_SUCCESS) {
            log_result(s, "message %d to %d: error %d", i, m->target, m->error);
        }
    }
}

static void take(batch *t, MPI_Request *request, const MPI_Status *status, int error)
{
    for (int i = 0; i < t->count; ++i) {
        message *m = &t->list[i];
        if (request == &m->receive_request) {
            m->status = *status;
        }
        if (request == &m->receive_request || request == &m->send_request) {
            m->error = error == MPI_SUCCESS ? m->error : error;
        }
    }
}

void messages_finish(step *s)
{
    batch *t = s->state;
    MPI_Request *from[2 * MESSAGES_MAX], requests[2 * MESSAGES_MAX];
    MPI_Status statuses[2 * MESSAGES_MAX];
    int errors[2 * MESSAGES_MAX];
    for (int persistent = 0; persistent < 2; ++persistent) {
        int count = gather(t, persistent, from, requests);
        if (persistent) {
            for (int i = 0; i < count; ++i) {
                errors[i] = error_class(MPI_Wait(&requests[i], &statuses[i]));
                TRY(s, MPI_Request_free(&requests[i]));
            }
        } else {
            complete(s, requests, count, statuses, errors, false, &t->random);
        }
        for (int i = 0; i < count; ++i) {
            take(t, from[i], &statuses[i], errors[i]);
            *from[i] = MPI_REQUEST_NULL;
        }
    }
    report(s, t);
    /* Requests that were freed: their buffers may be reused when all have received. */
    TRY(s, MPI_Barrier(s->where->comm));
    for (int i = 0; i < t->count; ++i) {
        message *m = &t->list[i];
        if (m->sends) {
            side_free(&m->out);
        }
        if (m->receives) {
            side_free(&m->in);
        }
    }
    free(t);
}
