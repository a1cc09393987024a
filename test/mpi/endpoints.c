// SPDX-License-Identifier: BSD-3-Clause
/*
 * Communicators over the endpoints of a process (the parameter `endpoints`), used by several
 * threads per rank at once: keys and hints, spread communicators, matching, cancels,
 * intercommunicators.
 * Arguments: numbers of endpoints, then names of parts (endpoints.h).
 */
#include "endpoints.h"

#include <dlfcn.h>

enum {
    TAGS = 8 /* per thread */
};

/* ------------------------------------------------------------------------------------------------
 * Contacts: the counter of peers tells which endpoints the messages of a communicator go over. Has
 * to run before the other parts. */

/* The number of pairs of endpoints, of this rank and of another one, that keys 0 to `last` lead to:
 * each end takes the key modulo its number, and both numbers are powers of two. */
static unsigned long long pairs(int rank, long last)
{
    const long mine = number_of_rank(numbers_of_ranks, check_rank);
    const long theirs = number_of_rank(numbers_of_ranks, rank);
    const long most = mine > theirs ? mine : theirs;
    return (unsigned long long) (last + 1 < most ? last + 1 : most);
}

static unsigned long long pairs_with_neighbours(long last)
{
    return pairs(to, last) + (from != to ? pairs(from, last) : 0);
}

static void check_contacts(unsigned long long before, long last, const char *what)
{
    MPI_Barrier(MPI_COMM_WORLD);
    const unsigned long long made = contacts_counted() - before;
    const unsigned long long expected = pairs_with_neighbours(last) - pairs_with_neighbours(0);
    CHECK(made == expected, "%s made %llu contacts, expected %llu", what, made, expected);
    MPI_Barrier(MPI_COMM_WORLD); /* until then no other rank goes on */
}

/* Not each build of Open MPI lets a component see the asserts of a communicator. */
static bool can_spread(void)
{
    return dlsym(dlopen(NULL, RTLD_LAZY), "ompi_comm_assert_subscribe") != NULL;
}

static void contacts(void)
{
    int *words = calloc((size_t) check_ranks * 2, sizeof *words);
    MPI_Comm spread_comm = duplicate(MPI_COMM_WORLD, NULL, true);
    MPI_Comm by_tag = duplicate_spread(MPI_COMM_WORLD, "0", false, true);
    MPI_Alltoall(words, 1, MPI_INT, words + check_ranks, 1, MPI_INT, MPI_COMM_WORLD);
    around(MPI_COMM_WORLD, 1, 8, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    const unsigned long long before = contacts_counted();
    MPI_Barrier(MPI_COMM_WORLD);
    around(comms[0], 1, 8, 2);
    check_contacts(before, 0, "a communicator of endpoint 0");
    around(comms[1], 1, 8, 3);
    check_contacts(before, 1, "a communicator of endpoint 1");
    for (int tag = 0; tag < 4; ++tag) {
        around(by_tag, tag, 8, 4);
    }
    if (can_spread()) {
        check_contacts(before, 3, "a communicator spread by tag");
    }
    for (int tag = 0; tag < COMMS; ++tag) {
        around(spread_comm, tag, 8, 4);
    }
    if (can_spread()) {
        check_contacts(before, COMMS - 1, "a spread communicator");
    }
    MPI_Comm_free(&by_tag);
    MPI_Comm_free(&spread_comm);
    free(words);
}

/* ------------------------------------------------------------------------------------------------
 * Hints: those that adaptib knows are returned, on communicators without them, too */

static void check_hint(MPI_Comm comm, const char *key, const char *right)
{
    MPI_Info info;
    char value[16] = "";
    int found = 0;
    MPI_Comm_get_info(comm, &info);
    MPI_Info_get(info, key, sizeof value - 1, value, &found);
    CHECK(found && strcmp(value, right) == 0, "%s is \"%s\", not \"%s\"", key, value, right);
    MPI_Info_free(&info);
}

/* Ranks may differ in these two. */
static void differing(const char *key)
{
    MPI_Comm made;
    MPI_Info info;
    const char *value = check_rank % 2 == 0 ? "true" : "false";
    MPI_Info_create(&info);
    MPI_Info_set(info, key, value);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &made);
    check_hint(made, key, value);
    for (int tag = 0; tag < COMMS; ++tag) {
        around(made, tag, mixed_size((uint64_t) tag), 1);
    }
    MPI_Info_set(info, key, "true");
    MPI_Comm_set_info(made, info);
    check_hint(made, key, "true");
    around(made, 1, LONG, 2);
    MPI_Info_free(&info);
    MPI_Comm_free(&made);
}

static void hints(void)
{
    static const char *const keys[] = {"mpi_assert_no_any_source", "mpi_assert_no_any_tag",
                                       "mpi_assert_allow_overtaking", "mpi_assert_exact_length"};
    MPI_Comm made;
    if (!can_spread()) {
        return;
    }
    made = duplicate(MPI_COMM_WORLD, NULL, true);
    check_hint(made, keys[0], "true");
    check_hint(made, keys[1], "true");
    MPI_Comm_free(&made);
    for (int i = 0; i < 4; ++i) {
        check_hint(MPI_COMM_WORLD, keys[i], "false");
    }
    differing(keys[2]);
    differing(keys[3]);
}

/* ------------------------------------------------------------------------------------------------
 * Wildcards that the hints of a communicator exclude: an error, and no wait for ever, even if the
 * hints are withdrawn later */

static void check_refused(int code, const char *what)
{
    int class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_ARG, "%s: error class %d, not MPI_ERR_ARG", what, class);
}

static void excluded(void)
{
    unsigned char byte = 0;
    int flag = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm made = duplicate(MPI_COMM_WORLD, NULL, true);
    MPI_Info info;
    if (!can_spread()) {
        MPI_Comm_free(&made);
        return;
    }
    MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_source", "false");
    MPI_Info_set(info, "mpi_assert_no_any_tag", "false");
    MPI_Comm_set_info(made, info);
    MPI_Info_free(&info);
    if (number_of_rank(numbers_of_ranks, check_rank) > 1) {
        check_refused(MPI_Recv(&byte, 1, MPI_BYTE, MPI_ANY_SOURCE, 1, made, MPI_STATUS_IGNORE),
                      "MPI_Recv from any source");
        check_refused(MPI_Irecv(&byte, 1, MPI_BYTE, MPI_ANY_SOURCE, 1, made, &request),
                      "MPI_Irecv from any source");
        check_refused(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, made, &flag, MPI_STATUS_IGNORE),
                      "MPI_Iprobe from any source");
    }
    if (pairs(from, 1) > 1) {
        check_refused(MPI_Recv(&byte, 1, MPI_BYTE, from, MPI_ANY_TAG, made, MPI_STATUS_IGNORE),
                      "MPI_Recv of any tag");
        check_refused(MPI_Improbe(from, MPI_ANY_TAG, made, &flag, &message, MPI_STATUS_IGNORE),
                      "MPI_Improbe of any tag");
    }
    around(made, 1, 8, 1);
    MPI_Barrier(made);
    MPI_Comm_free(&made);
}

/* ------------------------------------------------------------------------------------------------
 * Keys: communicators are made and freed by several threads at once, with sensible and senseless
 * values */

static void *makes_communicators(void *context)
{
    static const char *const keys[] = {
        NULL, "0",   "1",  "15",        "16",         "1000003",
        "-1", "0x7", " 3", "senseless", "4294967297", "123456789012345678901234567890",
        "3x", ""};
    const worker_t *worker = context;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; ++i) {
        const bool is_empty = keys[i] != NULL && keys[i][0] == '\0'; /* MPI forbids such a value */
        MPI_Comm first = duplicate(worker->comm, is_empty ? " " : keys[i], i % 2 == 1);
        MPI_Comm second = with_key(first, worker->number + (int) i);
        MPI_Comm third;
        MPI_Comm_dup(second, &third);
        MPI_Comm_free(&second);
        around(first, 3, mixed_size(i), 1);
        around(third, 3, mixed_size(i + 5), 2);
        MPI_Barrier(third);
        MPI_Comm_free(&first);
        around(third, 4, 100, 3);
        MPI_Comm_free(&third);
    }
    return NULL;
}

static void keys(void)
{
    run_threads(makes_communicators, comms, MPI_COMM_NULL, NULL);
}

/* ------------------------------------------------------------------------------------------------
 * Spread communicators: one communicator, several threads, a set of tags each */

static MPI_Comm shared_comm;

/* Several messages per tag, in all modes; those of one tag arrive in their order. */
static void windows(MPI_Comm comm, int first_tag, int round)
{
    enum {
        PER_TAG = 4,
        ALL = TAGS * PER_TAG
    };
    MPI_Request requests[2 * ALL];
    MPI_Status statuses[2 * ALL];
    unsigned char *in[ALL], *out[ALL];
    for (int i = 0; i < ALL; ++i) {
        const int tag = first_tag + i % TAGS;
        const size_t bytes = i == round % ALL ? LONG : mixed_size((uint64_t) (round + i)) % 9000;
        in[i] = malloc(LONG);
        out[i] = malloc(bytes + 1);
        fill(out[i], bytes, key_of(check_rank, tag, bytes, (uint64_t) i));
        MPI_Irecv(in[i], LONG, MPI_BYTE, from, tag, comm, &requests[i]);
        if (i % 3 == 0) {
            MPI_Issend(out[i], (int) bytes, MPI_BYTE, to, tag, comm, &requests[ALL + i]);
        } else {
            MPI_Isend(out[i], (int) bytes, MPI_BYTE, to, tag, comm, &requests[ALL + i]);
        }
    }
    MPI_Waitall(2 * ALL, requests, statuses);
    for (int i = 0; i < ALL; ++i) {
        const int tag = first_tag + i % TAGS;
        const size_t bytes = i == round % ALL ? LONG : mixed_size((uint64_t) (round + i)) % 9000;
        CHECK_STATUS(&statuses[i], from, tag, bytes, "spread window");
        CHECK_BYTES(in[i], bytes, key_of(from, tag, bytes, (uint64_t) i), "spread window");
        free(in[i]);
        free(out[i]);
    }
}

/* Persistent requests, one per tag. */
static void persistent(MPI_Comm comm, int first_tag)
{
    MPI_Request requests[2 * TAGS];
    int in[TAGS], out[TAGS];
    for (int i = 0; i < TAGS; ++i) {
        MPI_Recv_init(&in[i], 1, MPI_INT, from, first_tag + i, comm, &requests[i]);
        MPI_Send_init(&out[i], 1, MPI_INT, to, first_tag + i, comm, &requests[TAGS + i]);
    }
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < TAGS; ++i) {
            in[i] = -1;
            out[i] = 1000 * check_rank + 100 * round + first_tag + i;
        }
        MPI_Startall(2 * TAGS, requests);
        MPI_Waitall(2 * TAGS, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < TAGS; ++i) {
            const int expected = 1000 * from + 100 * round + first_tag + i;
            CHECK(in[i] == expected, "persistent: %d, expected %d", in[i], expected);
        }
    }
    for (int i = 0; i < 2 * TAGS; ++i) {
        MPI_Request_free(&requests[i]);
    }
}

/* Every second int of a buffer, long and short. */
static void derived(MPI_Comm comm, int tag, int count)
{
    MPI_Datatype type;
    MPI_Status status;
    int *in = malloc((size_t) count * 2 * sizeof *in),
        *out = malloc((size_t) count * 2 * sizeof *in);
    MPI_Type_vector(count, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < 2 * count; ++i) {
        in[i] = -1;
        out[i] = check_rank + i;
    }
    MPI_Sendrecv(out, 1, type, to, tag, in, 1, type, from, tag, comm, &status);
    CHECK_STATUS(&status, from, tag, (size_t) count * sizeof(int), "derived");
    for (int i = 0; i < 2 * count; ++i) {
        const int expected = i % 2 == 0 ? from + i : -1;
        CHECK(in[i] == expected, "derived: number %d is %d, expected %d", i, in[i], expected);
    }
    MPI_Type_free(&type);
    free(in);
    free(out);
}

/* Takes a message of known source and tag by each kind of probe. */
static void probed(MPI_Comm comm, int tag, int round)
{
    const size_t bytes = mixed_size((uint64_t) round);
    unsigned char *in = malloc(LONG + 100000), *out = malloc(bytes + 1);
    MPI_Request request;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    int flag = 0;
    fill(out, bytes, key_of(check_rank, tag, bytes, 9));
    MPI_Isend(out, (int) bytes, MPI_BYTE, to, tag, comm, &request);
    switch (round % 4) {
    case 0:
        MPI_Probe(from, tag, comm, &status);
        break;
    case 1:
        while (!flag) {
            MPI_Iprobe(from, tag, comm, &flag, &status);
        }
        break;
    case 2:
        MPI_Mprobe(from, tag, comm, &message, &status);
        break;
    default:
        while (!flag) {
            MPI_Improbe(from, tag, comm, &flag, &message, &status);
        }
    }
    CHECK_STATUS(&status, from, tag, bytes, "probed");
    if (message == MPI_MESSAGE_NULL) {
        MPI_Recv(in, (int) bytes, MPI_BYTE, from, tag, comm, &status);
    } else {
        MPI_Mrecv(in, (int) bytes, MPI_BYTE, &message, &status);
    }
    CHECK_STATUS(&status, from, tag, bytes, "received after a probe");
    CHECK_BYTES(in, bytes, key_of(from, tag, bytes, 9), "received after a probe");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    free(in);
    free(out);
}

static void *uses_spread(void *context)
{
    const worker_t *worker = context;
    const int first_tag = worker->number * TAGS;
    for (int round = 0; round < ROUNDS; ++round) {
        windows(worker->comm, first_tag, round);
        probed(worker->comm, first_tag + round % TAGS, round);
        derived(worker->comm, first_tag + round % TAGS, round % 5 == 0 ? 40000 : 30);
        if (round % 5 == 0) {
            persistent(worker->comm, first_tag);
            around(worker->comm, first_tag, LONG, (uint64_t) round);
        }
    }
    return NULL;
}

/* Blocking and non-blocking collectives of one thread. */
static void collectives_on(MPI_Comm comm)
{
    const int sum_of_ranks = check_ranks * (check_ranks - 1) / 2;
    for (int round = 0; round < ROUNDS; ++round) {
        const int root = round % check_ranks;
        int sum = -1, later = -1, word = check_rank == root ? round : -1;
        MPI_Request requests[2];
        MPI_Iallreduce(&check_rank, &later, 1, MPI_INT, MPI_SUM, comm, &requests[0]);
        MPI_Ibarrier(comm, &requests[1]);
        MPI_Bcast(&word, 1, MPI_INT, root, comm);
        CHECK(word == round, "Bcast gave %d, expected %d", word, round);
        MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, comm);
        CHECK(sum == sum_of_ranks, "Allreduce gave %d, expected %d", sum, sum_of_ranks);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(later == sum_of_ranks, "Iallreduce gave %d, expected %d", later, sum_of_ranks);
    }
}

static void collectives_meanwhile(void)
{
    collectives_on(shared_comm);
}

/* The asserts of a communicator do not hold for its duplicates. */
static void wildcards_on_a_duplicate(MPI_Comm of)
{
    MPI_Comm made;
    MPI_Request request;
    MPI_Status status;
    MPI_Comm_dup(of, &made);
    for (int tag = 0; tag < TAGS; ++tag) {
        int in = -1, out = tag + 100 * check_rank;
        MPI_Isend(&out, 1, MPI_INT, to, tag, made, &request);
        MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, made, &status);
        CHECK_STATUS(&status, from, tag, sizeof in, "on a duplicate");
        CHECK(in == tag + 100 * from, "on a duplicate: %d", in);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&made);
}

static void spread(void)
{
    for (int with = 0; with < 2; ++with) {
        shared_comm = duplicate(MPI_COMM_WORLD, with ? "3" : NULL, true);
        run_threads(uses_spread, NULL, shared_comm, collectives_meanwhile);
        wildcards_on_a_duplicate(shared_comm);
        MPI_Comm_free(&shared_comm);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Communicators spread by one thing only: any source, or any tag, still finds its messages */

/* Takes a message by each way to receive, and checks it. */
static void take_by(int way, MPI_Comm comm, int source, int tag, int right_tag, int word)
{
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Request request;
    MPI_Status status;
    int in = -1, flag = 0;
    switch (way % 4) {
    case 0:
        MPI_Recv(&in, 1, MPI_INT, source, tag, comm, &status);
        break;
    case 1:
        MPI_Irecv(&in, 1, MPI_INT, source, tag, comm, &request);
        MPI_Wait(&request, &status);
        break;
    case 2:
        MPI_Mprobe(source, tag, comm, &message, &status);
        MPI_Mrecv(&in, 1, MPI_INT, &message, &status);
        break;
    default:
        while (!flag) {
            MPI_Iprobe(source, tag, comm, &flag, &status);
        }
        MPI_Recv(&in, 1, MPI_INT, source, tag, comm, &status);
    }
    CHECK_STATUS(&status, from, right_tag, sizeof in, "on a communicator spread by one thing");
    CHECK(in == word, "number %d instead of %d", in, word);
}

/* Messages with each tag of the thread, of which each receive names one, or none: those that it
 * could match arrive in their order. */
static void *wildcards_by(void *context, int source, int tag)
{
    const worker_t *worker = context;
    MPI_Request requests[TAGS];
    int out[TAGS];
    for (int round = 0; round < ROUNDS; ++round) {
        for (int i = 0; i < TAGS; ++i) {
            out[i] = 100 * round + i;
            MPI_Isend(&out[i], 1, MPI_INT, to, worker->number * TAGS + i, worker->comm,
                      &requests[i]);
        }
        for (int i = 0; i < TAGS; ++i) {
            const int right = worker->number * TAGS + i;
            take_by(round + i, worker->comm, source, tag == MPI_ANY_TAG ? tag : right, right,
                    100 * round + i);
        }
        MPI_Waitall(TAGS, requests, MPI_STATUSES_IGNORE);
    }
    return NULL;
}

static void *any_source(void *context)
{
    return wildcards_by(context, MPI_ANY_SOURCE, 0);
}

static void *any_tag(void *context)
{
    return wildcards_by(context, from, MPI_ANY_TAG);
}

static void half_spread(void)
{
    MPI_Comm own[THREADS];
    shared_comm = duplicate_spread(MPI_COMM_WORLD, "3", false, true);
    run_threads(any_source, NULL, shared_comm, collectives_meanwhile);
    MPI_Comm_free(&shared_comm);
    shared_comm = duplicate_spread(MPI_COMM_WORLD, NULL, true, false);
    for (int i = 0; i < THREADS; ++i) { /* whoever asks for any tag shares with nobody */
        own[i] = duplicate_spread(MPI_COMM_WORLD, NULL, true, false);
    }
    run_threads(any_tag, own, MPI_COMM_NULL, collectives_meanwhile);
    for (int i = 0; i < THREADS; ++i) {
        MPI_Comm_free(&own[i]);
    }
    MPI_Comm_free(&shared_comm);
}

static void *uses_collectives(void *context)
{
    collectives_on(((const worker_t *) context)->comm);
    return NULL;
}

/* A communicator of its own for each thread. */
static void collectives(void)
{
    for (int first = 0; first < COMMS; first += THREADS) {
        run_threads(uses_collectives, &comms[first], MPI_COMM_NULL, NULL);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Wildcards and probes, each thread on a communicator of its own */

/* Takes one message from anywhere, with any tag. */
static size_t take(MPI_Comm comm, int kind, unsigned char *in, MPI_Status *status)
{
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Request request;
    MPI_Status received;
    int flag = 0, bytes = -1;
    switch (kind) {
    case 0:
        MPI_Recv(in, LONG, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, status);
        break;
    case 1:
        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, status);
        break;
    case 2:
        while (!flag) {
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, status);
        }
        break;
    case 3:
        MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &message, status);
        break;
    case 4:
        while (!flag) {
            MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &message, status);
        }
        break;
    default:
        MPI_Irecv(in, LONG, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &request);
        MPI_Wait(&request, status);
    }
    MPI_Get_count(status, MPI_BYTE, &bytes);
    if (kind == 1 || kind == 2) {
        MPI_Recv(in, bytes, MPI_BYTE, status->MPI_SOURCE, status->MPI_TAG, comm, &received);
        CHECK_STATUS(&received, status->MPI_SOURCE, status->MPI_TAG, (size_t) bytes, "probed");
    } else if (kind == 3) {
        MPI_Mrecv(in, bytes, MPI_BYTE, &message, &received);
        CHECK_STATUS(&received, status->MPI_SOURCE, status->MPI_TAG, (size_t) bytes, "Mrecv");
    } else if (kind == 4) {
        MPI_Imrecv(in, bytes, MPI_BYTE, &message, &request);
        MPI_Wait(&request, &received);
        CHECK_STATUS(&received, status->MPI_SOURCE, status->MPI_TAG, (size_t) bytes, "Imrecv");
    }
    return (size_t) bytes;
}

/* Sends to every rank, and receives from every rank in any order; messages of one sender come in
 * their order. */
static void *matches(void *context)
{
    enum {
        EACH = 24
    };
    const worker_t *worker = context;
    const MPI_Comm comm = worker->comm;
    MPI_Request *requests = malloc((size_t) (EACH * check_ranks) * sizeof *requests);
    unsigned char **out = malloc((size_t) EACH * sizeof *out), *in = malloc(LONG);
    int *next = calloc((size_t) check_ranks, sizeof *next);
    for (int i = 0; i < EACH; ++i) {
        const size_t bytes = i % 8 == 7 ? LONG : mixed_size((uint64_t) i) % 9000;
        out[i] = malloc(bytes + 1);
        fill(out[i], bytes, key_of(check_rank, i, bytes, (uint64_t) worker->number));
        for (int rank = 0; rank < check_ranks; ++rank) {
            MPI_Isend(out[i], (int) bytes, MPI_BYTE, rank, i, comm,
                      &requests[i * check_ranks + rank]);
        }
    }
    for (int i = 0; i < EACH * check_ranks; ++i) {
        MPI_Status status;
        const size_t bytes = take(comm, i % 6, in, &status);
        const int source = status.MPI_SOURCE;
        CHECK(source >= 0 && source < check_ranks, "source %d", source);
        CHECK(status.MPI_TAG == next[source], "tag %d of rank %d, expected %d", status.MPI_TAG,
              source, next[source]);
        CHECK_BYTES(in, bytes, key_of(source, next[source], bytes, (uint64_t) worker->number),
                    "matched");
        ++next[source];
    }
    MPI_Waitall(EACH * check_ranks, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < EACH; ++i) {
        free(out[i]);
    }
    free(out);
    free(in);
    free(next);
    free(requests);
    return NULL;
}

static void matching(void)
{
    for (int first = 0; first < COMMS; first += THREADS) {
        run_threads(matches, &comms[first], MPI_COMM_NULL, NULL);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Cancels: one thread posts receives on all communicators, another one cancels every second, while
 * others exchange messages there */

static void *exchanges(void *context)
{
    const worker_t *worker = context;
    for (int round = 0; round < ROUNDS; ++round) {
        for (int i = worker->number; i < COMMS; i += THREADS) {
            around(comms[i], 7, mixed_size((uint64_t) (round + i)) % 20000, (uint64_t) round);
        }
    }
    return NULL;
}

static MPI_Request posted[2 * COMMS];

static void *cancels_some(void *unused)
{
    (void) unused;
    for (int i = 0; i < COMMS; ++i) {
        MPI_Status status;
        int cancelled = -1;
        MPI_Cancel(&posted[2 * i]);
        MPI_Wait(&posted[2 * i], &status);
        MPI_Test_cancelled(&status, &cancelled);
        CHECK(cancelled == 1, "receive %d, for which nothing was sent, was not cancelled", i);
    }
    return NULL;
}

static void cancels_meanwhile(void)
{
    int in[2 * COMMS], out[COMMS];
    MPI_Request sent[COMMS];
    for (int round = 0; round < ROUNDS; ++round) {
        pthread_t thread;
        for (int i = 0; i < COMMS; ++i) {
            MPI_Irecv(&in[2 * i], 1, MPI_INT, i % 2 ? MPI_ANY_SOURCE : from, 8, comms[i],
                      &posted[2 * i]);
            MPI_Irecv(&in[2 * i + 1], 1, MPI_INT, i % 3 ? MPI_ANY_SOURCE : from, 9, comms[i],
                      &posted[2 * i + 1]);
        }
        CHECK(pthread_create(&thread, NULL, cancels_some, NULL) == 0, "no thread");
        for (int i = 0; i < COMMS; ++i) {
            out[i] = 1000 * check_rank + i;
            MPI_Isend(&out[i], 1, MPI_INT, to, 9, comms[i], &sent[i]);
        }
        for (int i = 0; i < COMMS; ++i) {
            MPI_Wait(&posted[2 * i + 1], MPI_STATUS_IGNORE);
            CHECK(in[2 * i + 1] == 1000 * from + i, "beside a cancelled receive: %d",
                  in[2 * i + 1]);
        }
        MPI_Waitall(COMMS, sent, MPI_STATUSES_IGNORE);
        pthread_join(thread, NULL);
    }
}

static void cancels(void)
{
    run_threads(exchanges, NULL, MPI_COMM_NULL, cancels_meanwhile);
}

/* ------------------------------------------------------------------------------------------------
 * Intercommunicators between the even and the odd ranks, spread or on one endpoint */

static MPI_Comm inter;

static void *uses_inter(void *context)
{
    const worker_t *worker = context;
    int remote, rank;
    MPI_Comm_remote_size(worker->comm, &remote);
    MPI_Comm_rank(worker->comm, &rank);
    const int base = worker->number * TAGS;
    for (int round = 0; round < ROUNDS; ++round) {
        const int tag = base + round % TAGS;
        const size_t bytes = round % 8 == 0 ? LONG : mixed_size((uint64_t) round) % 9000;
        unsigned char *out = malloc(bytes + 1), *in = malloc(bytes + 1);
        MPI_Request requests[16];
        CHECK(remote <= 16, "%d ranks", remote);
        fill(out, bytes, key_of(rank, tag, bytes, (uint64_t) round));
        for (int peer = 0; peer < remote; ++peer) {
            MPI_Isend(out, (int) bytes, MPI_BYTE, peer, tag, worker->comm, &requests[peer]);
        }
        for (int peer = 0; peer < remote; ++peer) {
            MPI_Status status;
            MPI_Recv(in, (int) bytes, MPI_BYTE, peer, tag, worker->comm, &status);
            CHECK_STATUS(&status, peer, tag, bytes, "from another group");
            CHECK_BYTES(in, bytes, key_of(peer, tag, bytes, (uint64_t) round),
                        "from another group");
        }
        MPI_Waitall(remote, requests, MPI_STATUSES_IGNORE);
        free(in);
        free(out);
    }
    return NULL;
}

static void collective_on_inter(void)
{
    int remote, sum = -1;
    const int one = 1;
    MPI_Comm_remote_size(inter, &remote);
    for (int round = 0; round < ROUNDS; ++round) {
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter);
        CHECK(sum == remote, "Allreduce of another group gave %d", sum);
    }
}

static void intercommunicators(void)
{
    for (int kind = 0; kind < 4; ++kind) {
        MPI_Comm group, merged, made, peers = duplicate(MPI_COMM_WORLD, NULL, kind % 2 == 1);
        MPI_Comm_split(peers, check_rank % 2, check_rank, &group);
        MPI_Intercomm_create(group, 0, peers, check_rank % 2 == 0 ? 1 : 0, 20 + kind, &made);
        inter = duplicate(made, kind == 3 ? "5" : NULL, kind >= 2);
        run_threads(uses_inter, NULL, inter, collective_on_inter);
        MPI_Intercomm_merge(inter, check_rank % 2, &merged);
        around(merged, 5, 1000, (uint64_t) kind);
        MPI_Comm_free(&merged);
        MPI_Comm_free(&inter);
        MPI_Comm_free(&made);
        MPI_Comm_free(&group);
        MPI_Comm_free(&peers);
    }
}

int main(int argc, char **argv)
{
    static const part_t parts[] = {{"contacts", contacts},
                                   {"keys", keys},
                                   {"hints", hints},
                                   {"excluded", excluded},
                                   {"spread", spread},
                                   {"half_spread", half_spread},
                                   {"collectives", collectives},
                                   {"matching", matching},
                                   {"cancels", cancels},
                                   {"intercommunicators", intercommunicators}};
    endpoints_begin(&argc, &argv, "endpoints");
    run_parts(argc, argv, parts, (int) (sizeof parts / sizeof parts[0]));
    endpoints_end();
    return 0;
}
