// SPDX-License-Identifier: BSD-3-Clause
/*
 * Events of MPI_T (Open MPI 6.0) tell of a path that fails and comes back, and of the repair of the
 * connection, or of a partition. Two ranks, over the two virtual rails that test/mpi/LIST asks for;
 * rank 0 takes rails down by adaptib_rails, which lies beside the components. Argument:
 *   repair     one rail goes down and comes back, and the job goes on
 *   partition  all rails go down for longer than partition_timeout, and each rank loses the other
 */
#include "check.h"

#if MPI_VERSION >= 4 && (!defined(OMPI_MAJOR_VERSION) || OMPI_MAJOR_VERSION >= 6)

#include <time.h>
#include <unistd.h>

enum {
    BYTES = 1 << 20,
    PATIENCE = 30, /* seconds */
    TEXT = 1024
};

typedef struct {
    const char *name;
    MPI_T_event_registration registration;
    int count;
    int32_t rank, job, rail, endpoint; /* of the latest */
    uint64_t lasted_ns;
} event_t;

enum {
    PATH_FAILED,
    PATH_UP,
    REPAIR,
    REPAIRED,
    RAIL_DOWN,
    RAIL_UP,
    UNREACHABLE,
    PEER_LOST,
    EVENTS
};

static event_t events[EVENTS] = {
    [PATH_FAILED] = {.name = "path_failed"}, [PATH_UP] = {.name = "path_up"},
    [REPAIR] = {.name = "repair"},           [REPAIRED] = {.name = "repaired"},
    [RAIL_DOWN] = {.name = "rail_down"},     [RAIL_UP] = {.name = "rail_up"},
    [UNREACHABLE] = {.name = "unreachable"}, [PEER_LOST] = {.name = "peer_lost"},
};

/* A callback may call MPI: it sends itself a message. */
static void call_mpi(void)
{
    int out = check_rank, in = -1;

    MPI_Sendrecv(&out, 1, MPI_INT, 0, 7, &in, 1, MPI_INT, 0, 7, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    CHECK(in == check_rank, "a message of a callback to itself: %d", in);
}

static void came(MPI_T_event_instance instance, MPI_T_event_registration registration,
                 MPI_T_cb_safety safety, void *user_data)
{
    event_t *event = user_data;
    MPI_Count at = -1, now = -1;
    int source = -1;

    CHECK(registration == event->registration, "%s: registration", event->name);
    CHECK(MPI_T_CB_REQUIRE_NONE == safety, "%s: safety %d", event->name, (int) safety);
    CHECK(MPI_SUCCESS == MPI_T_event_read(instance, 0, &event->rank)
              && MPI_SUCCESS == MPI_T_event_read(instance, 1, &event->job)
              && MPI_SUCCESS == MPI_T_event_read(instance, 2, &event->rail)
              && MPI_SUCCESS == MPI_T_event_read(instance, 3, &event->endpoint)
              && MPI_SUCCESS == MPI_T_event_read(instance, 4, &event->lasted_ns),
          "%s: elements", event->name);
    CHECK(MPI_SUCCESS == MPI_T_event_get_source(instance, &source)
              && MPI_SUCCESS == MPI_T_event_get_timestamp(instance, &at)
              && MPI_SUCCESS == MPI_T_source_get_timestamp(source, &now) && at >= 0 && now >= at,
          "%s: time %lld, now %lld", event->name, (long long) at, (long long) now);
    ++event->count;
    call_mpi();
}

/* The number of the event type "...opal_common_adaptib_<name>"; Open MPI puts words before it. */
static int find(const char *wanted)
{
    char full[TEXT];
    int count = 0;

    snprintf(full, sizeof full, "opal_common_adaptib_%s", wanted);
    MPI_T_event_get_num(&count);
    for (int i = 0; i < count; ++i) {
        char name[TEXT] = "", help[TEXT] = "";
        int length = TEXT, help_length = TEXT, verbosity, elements = 0, bind;
        const int rc = MPI_T_event_get_info(i, name, &length, &verbosity, NULL, NULL, &elements,
                                            NULL, NULL, help, &help_length, &bind);
        const char *end = name + strlen(name);

        if (MPI_SUCCESS == rc && strlen(name) >= strlen(full)
            && 0 == strcmp(end - strlen(full), full)) {
            CHECK(5 == elements, "%s has %d elements", name, elements);
            CHECK(NULL != strstr(help, "Elements:"), "%s: %s", name, help);
            return i;
        }
    }
    FAIL("there is no event %s among %d", full, count);
}

static void listen_to(event_t *event)
{
    CHECK(MPI_SUCCESS
              == MPI_T_event_handle_alloc(find(event->name), NULL, MPI_INFO_NULL,
                                          &event->registration),
          "%s: handle", event->name);
    CHECK(MPI_SUCCESS
              == MPI_T_event_register_callback(event->registration, MPI_T_CB_REQUIRE_NONE,
                                               MPI_INFO_NULL, event, came),
          "%s: callback", event->name);
}

/* Runs adaptib_rails for the rails of this process. */
static void change_rail(const char *how, const char *rail)
{
    const char *path = getenv("OMPI_MCA_mca_base_component_path");
    const char *colon = NULL != path ? strrchr(path, ':') : NULL;
    char command[TEXT];

    CHECK(NULL != path, "no component path");
    snprintf(command, sizeof command, "%s/adaptib_rails %s %s --pid %ld >/dev/null",
             NULL != colon ? colon + 1 : path, how, rail, (long) getpid());
    CHECK(0 == system(command), "%s", command);
}

/* Exchanges messages until both ranks have had an event of each kind that they name. */
static void exchange_until(const int *kinds, int number)
{
    unsigned char *out = malloc(BYTES), *in = malloc(BYTES);
    const time_t end = time(NULL) + PATIENCE;
    int have = 0, all = 0;

    for (int round = 0; !all; ++round) {
        const uint64_t key = key_of(check_rank, 1, BYTES, (uint64_t) round);

        fill(out, BYTES, key);
        MPI_Sendrecv(out, BYTES, MPI_BYTE, 1 - check_rank, 1, in, BYTES, MPI_BYTE, 1 - check_rank,
                     1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_BYTES(in, BYTES, key_of(1 - check_rank, 1, BYTES, (uint64_t) round), "received");
        have = 1;
        for (int i = 0; i < number; ++i) {
            have = have && events[kinds[i]].count > 0;
        }
        for (int i = 0; i < number && !have && time(NULL) > end; ++i) {
            CHECK(events[kinds[i]].count > 0, "no event %s", events[kinds[i]].name);
        }
        MPI_Allreduce(&have, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    free(out);
    free(in);
}

static void expect_elements(const event_t *event, int rail)
{
    CHECK(1 - check_rank == event->rank && 0 == event->job && 0 == event->endpoint
              && rail == event->rail,
          "%s: rank %d, job %d, rail %d, endpoint %d", event->name, event->rank, event->job,
          event->rail, event->endpoint);
}

static void expect_rail(const event_t *event)
{
    CHECK(1 == event->count && -1 == event->rank && -1 == event->job && 0 == event->endpoint
              && 1 == event->rail,
          "%d times %s: rank %d, job %d, rail %d, endpoint %d", event->count, event->name,
          event->rank, event->job, event->rail, event->endpoint);
}

static void repair(void)
{
    const int failing[] = {REPAIR, REPAIRED}, back[] = {RAIL_UP, PATH_UP};

    exchange_until(NULL, 0);
    for (int i = 0; i < EVENTS; ++i) {
        CHECK(0 == events[i].count, "%s before anything failed", events[i].name);
    }
    if (0 == check_rank) {
        change_rail("down", "shm1");
    }
    exchange_until(failing, 2);
    expect_elements(&events[REPAIR], -1);
    expect_elements(&events[REPAIRED], -1);
    CHECK(events[REPAIRED].lasted_ns > 0 && events[REPAIRED].lasted_ns < UINT64_C(30000000000),
          "repaired after %llu ns", (unsigned long long) events[REPAIRED].lasted_ns);
    if (0 == check_rank) {
        expect_rail(&events[RAIL_DOWN]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == check_rank) {
        change_rail("up", "shm1");
    }
    exchange_until(back, 0 == check_rank ? 2 : 0);
    if (0 == check_rank) {
        expect_rail(&events[RAIL_UP]);
    }
    CHECK(0 == events[UNREACHABLE].count && 0 == events[PEER_LOST].count, "a peer is lost");
}

/* Neither rank reaches the other any more. */
static void partition(void)
{
    int in = -1;

    exchange_until(NULL, 0);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (0 == check_rank) {
        change_rail("down", "shm0");
        change_rail("down", "shm1");
    }
    CHECK(MPI_SUCCESS
              != MPI_Recv(&in, 1, MPI_INT, 1 - check_rank, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
          "a receive from a process out of reach succeeds");
    for (time_t end = time(NULL) + PATIENCE; 0 == events[PEER_LOST].count && time(NULL) < end;) {
        int flag = 0;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    }
    CHECK(1 == events[UNREACHABLE].count && 1 == events[PEER_LOST].count,
          "%d times unreachable, %d times lost", events[UNREACHABLE].count,
          events[PEER_LOST].count);
    if (0 == check_rank) {
        CHECK(2 == events[RAIL_DOWN].count, "%d rails down", events[RAIL_DOWN].count);
    } else {
        CHECK(events[PATH_FAILED].count > 0 && 0 == events[PATH_FAILED].rank,
              "%d paths failed, to rank %d", events[PATH_FAILED].count, events[PATH_FAILED].rank);
    }
    expect_elements(&events[UNREACHABLE], -1);
    expect_elements(&events[PEER_LOST], -1);
    CHECK(events[UNREACHABLE].lasted_ns >= UINT64_C(900000000), "out of reach for %llu ns",
          (unsigned long long) events[UNREACHABLE].lasted_ns);
}

int main(int argc, char **argv)
{
    int provided;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    for (int i = 0; i < EVENTS; ++i) { /* tools find them before MPI_Init */
        listen_to(&events[i]);
    }
    check_begin(&argc, &argv, "mpi_t_events", 2);
    CHECK(argc == 2, "arguments: repair|partition");
    if (0 == strcmp(argv[1], "repair")) {
        repair();
    } else {
        partition();
    }
    for (int i = 0; i < EVENTS; ++i) {
        MPI_T_event_handle_free(events[i].registration, NULL, NULL);
    }
    check_end();
    MPI_T_finalize();
    return 0;
}

#else

int main(int argc, char **argv)
{
    return check_skip(&argc, &argv);
}

#endif
