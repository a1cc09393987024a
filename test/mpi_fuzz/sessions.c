// SPDX-License-Identifier: BSD-3-Clause
/*
 * Sessions beside the world model (MPI 4, chapter 11): several at a time, communicators from the
 * groups of their process sets and from parts of them, and steps of other kinds over these, while
 * messages over a communicator of the world are pending. MPI allows no call that takes objects of
 * two sessions, or of a session and of the world; so ranks of groups are exchanged as numbers.
 */
#include "mpi_fuzz/fuzz.h"

#if FUZZ_MPI_4

enum {
    SESSIONS_MAX = 3,
    COMMUNICATORS_MAX = 3,
    RANKS_MAX = 64
};

/* How a communicator is made */
typedef enum {
    WHOLE,  /* all processes of the step */
    PART,   /* some of them, in another order */
    ALONE,  /* each process by itself, from the process set of its own */
    COPY,   /* a duplicate of one from a group */
    HALVES, /* an intercommunicator of two groups */
    WAYS
} way;

static const char *const names[] = {"whole", "part", "alone", "copy", "halves"};

typedef struct {
    MPI_Session sessions[SESSIONS_MAX];
    int session_count, count;
    communicator list[COMMUNICATORS_MAX];
    step steps[COMMUNICATORS_MAX + 1]; /* the last one over the world's communicator */
    uint64_t random;                   /* this rank's own */
} visit;

static const kind kinds[] = {
    {"messages", 4, 0, false, ALWAYS, messages_start, messages_finish},
    {"persistent", 1, 0, false, ALWAYS, persistent_start, NULL},
    {"collectives", 2, 0, false, ALWAYS, collectives_start, collectives_finish},
    /* not between groups */
    {"wildcards", 2, 0, false, ALWAYS, wildcards_start, NULL},
    {"shifts", 1, 0, false, ALWAYS, shifts_start, NULL},
    {"truncation", 1, 0, false, ALWAYS, truncation_start, NULL},
};

static const kind *choose(bool inter, uint64_t *random)
{
    int ticket = below(random, inter ? 7 : 11);
    const kind *k = kinds;
    while (ticket >= k->weight) {
        ticket -= k->weight;
        ++k;
    }
    return k;
}

/* ------------------------------------------------------------------------------------------------
 * Sessions */

static int errors_seen;

static void see_error(MPI_Session *session, int *code, ...)
{
    (void) session;
    (void) code;
    ++errors_seen;
}

/* Sessions are local: each rank asks its own ones. */
static void open_session(const step *s, MPI_Session *session, uint64_t *random)
{
    MPI_Info info = MPI_INFO_NULL, used = MPI_INFO_NULL;
    char level[MPI_MAX_INFO_VAL] = "";
    int there = 0, length = sizeof level;
    if (chance(random, 2)) {
        MPI_Info_create(&info);
        MPI_Info_set(info, "thread_level",
                     fuzz_threads ? "MPI_THREAD_MULTIPLE" : "MPI_THREAD_SINGLE");
        MPI_Info_set(info, "mpi_fuzz", "1");
    }
    log_words(s, "Session_init%s", info == MPI_INFO_NULL ? "" : " with info");
    TRY(s, MPI_Session_init(info, MPI_ERRORS_RETURN, session));
    if (info != MPI_INFO_NULL) {
        MPI_Info_free(&info);
        TRY(s, MPI_Session_get_info(*session, &used));
        MPI_Info_get_string(used, "thread_level", &length, level, &there);
        log_result(s, "thread level %s", there ? level : "unknown");
        MPI_Info_free(&used);
    }
}

/* Process sets: those that MPI names are there, and say how many processes they have. */
static void ask_session(const step *s, MPI_Session session)
{
    static const char *const wanted[] = {"mpi://WORLD", "mpi://SELF"};
    int count = 0, found[2] = {0, 0};
    TRY(s, MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count));
    for (int i = 0; i < count; ++i) {
        char name[MPI_MAX_PSET_NAME_LEN + 1] = "";
        int length = 0;
        TRY(s, MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, NULL));
        if (length > 0 && length <= MPI_MAX_PSET_NAME_LEN) {
            TRY(s, MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, name));
        }
        found[0] += strcmp(name, wanted[0]) == 0;
        found[1] += strcmp(name, wanted[1]) == 0;
    }
    for (int i = 0; i < 2; ++i) {
        MPI_Info info;
        char size[16] = "";
        int there = 0, length = sizeof size;
        TRY(s, MPI_Session_get_pset_info(session, wanted[i], &info));
        MPI_Info_get_string(info, "mpi_size", &length, size, &there);
        MPI_Info_free(&info);
        log_result(s, "%s: there %d times, size %s", wanted[i], found[i], there ? size : "unknown");
    }
}

/* A process set that is not there is an error, which the session's handler gets. */
static void raise_errors(const step *s, MPI_Session session)
{
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Errhandler seen, before;
    MPI_Comm comm = MPI_COMM_NULL;
    TRY(s, MPI_Session_get_errhandler(session, &before));
    TRY(s, MPI_Session_create_errhandler(see_error, &seen));
    TRY(s, MPI_Session_set_errhandler(session, seen));
    errors_seen = 0;
    int code = MPI_Group_from_session_pset(session, "mpi://mpi_fuzz/nothing", &group);
    log_result(s, "no such process set: error class %d, handler called %d times", error_class(code),
               errors_seen);
    TRY(s, MPI_Session_call_errhandler(session, MPI_ERR_OTHER));
    log_result(s, "handler called %d times", errors_seen);
    TRY(s, MPI_Session_set_errhandler(session, before));
    TRY(s, MPI_Errhandler_free(&seen));
    TRY(s, MPI_Errhandler_free(&before));
    TRY(s, MPI_Comm_create_from_group(MPI_GROUP_EMPTY, "mpi_fuzz", MPI_INFO_NULL, MPI_ERRORS_RETURN,
                                      &comm));
    log_result(s, "from the empty group: %s", comm == MPI_COMM_NULL ? "none" : "a communicator");
}

/* ------------------------------------------------------------------------------------------------
 * Communicators */

/* Describes a communicator of a session, whose members may be fewer than the step's. */
static void describe(const step *s, communicator *c, way how, int number)
{
    snprintf(c->name, sizeof c->name, "session's %s", names[how]);
    if (c->comm == MPI_COMM_NULL) {
        return;
    }
    communicator_measure(c);
    log_result(s, "communicator %d, %s: rank %d of %d and %d", number, c->name, c->rank,
               c->sizes[c->group], c->sizes[!c->group]);
}

/* The group of these of the step's processes; ranks are those of the process set of all. */
static MPI_Group group_of(const step *s, MPI_Session session, const int *ranks, int count)
{
    MPI_Group all, group;
    TRY(s, MPI_Group_from_session_pset(session, "mpi://WORLD", &all));
    TRY(s, MPI_Group_incl(all, count, ranks, &group));
    TRY(s, MPI_Group_free(&all));
    return group;
}

static void from_group(const step *s, communicator *c, MPI_Group group, const char *tag)
{
    TRY(s, MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &c->comm));
    TRY(s, MPI_Group_free(&group));
}

/* An intercommunicator of the lower and the upper processes */
static void between_halves(const step *s, communicator *c, MPI_Session session, const int *ranks,
                           int count, const char *tag)
{
    int lower = count / 2;
    MPI_Group low = group_of(s, session, ranks, lower);
    MPI_Group high = group_of(s, session, ranks + lower, count - lower);
    c->inter = true;
    c->group = s->where->rank >= lower;
    TRY(s, MPI_Intercomm_create_from_groups(c->group ? high : low, 0, c->group ? low : high, 0, tag,
                                            MPI_INFO_NULL, MPI_ERRORS_RETURN, &c->comm));
    TRY(s, MPI_Group_free(&low));
    TRY(s, MPI_Group_free(&high));
}

/* The step's processes that take part, in a random order; returns their number. */
static int some_of(int *chosen, const int *ranks, int count, uint64_t *random)
{
    for (int i = 0; i < count; ++i) {
        int place = below(random, i + 1);
        chosen[i] = chosen[place];
        chosen[place] = ranks[i];
    }
    return 1 + below(random, count);
}

static void make(const step *s, visit *v, int number, const int *ranks, uint64_t *random)
{
    communicator *c = &v->list[number];
    MPI_Session session = v->sessions[below(random, v->session_count)];
    int count = s->where->sizes[0], mine = ranks[s->where->rank], chosen[RANKS_MAX];
    way how = (way) below(random, WAYS);
    char tag[64];
    MPI_Group group;
    snprintf(tag, sizeof tag, "mpi_fuzz.%016llx.%d", (unsigned long long) s->seed, number);
    c->comm = MPI_COMM_NULL;
    how = (how == COPY && number == 0) || (how == HALVES && count < 2) ? WHOLE : how;
    log_words(s, "communicator %d: %s", number, names[how]);
    switch (how) {
    case PART:
        count = some_of(chosen, ranks, count, random);
        for (int i = 0; i < count; ++i) {
            if (chosen[i] == mine) {
                from_group(s, c, group_of(s, session, chosen, count), tag);
            }
        }
        break;
    case ALONE:
        TRY(s, MPI_Group_from_session_pset(session, "mpi://SELF", &group));
        from_group(s, c, group, tag);
        break;
    case COPY:
        *c = v->list[number - 1];
        if (c->comm != MPI_COMM_NULL) {
            TRY(s, MPI_Comm_dup(v->list[number - 1].comm, &c->comm));
        }
        break;
    case HALVES:
        between_halves(s, c, session, ranks, count, tag);
        break;
    default:
        from_group(s, c, group_of(s, session, ranks, count), tag);
    }
    describe(s, c, how, number);
}

/* ------------------------------------------------------------------------------------------------
 * Steps */

/* Begins a step of another kind, over a communicator of a session or of the world. */
static void begin(const step *s, step *part, communicator *where, int number)
{
    *part = *s;
    part->where = where;
    part->state = NULL;
    part->seed = seed_of(s->seed, 200 + (uint64_t) number);
    uint64_t random = seed_of(part->seed, 2000);
    part->kind = choose(where->inter, &random);
    if (where->comm != MPI_COMM_NULL) {
        log_words(s, "%s on %s", part->kind->name, where->name);
        part->kind->start(part);
    }
}

static void end(step *part)
{
    if (part->where->comm != MPI_COMM_NULL && part->kind->finish != NULL) {
        log_words(part, "finish %s on %s", part->kind->name, part->where->name);
        part->kind->finish(part);
    }
}

/* Which ranks of the process set of all the step's processes are */
static void exchange_ranks(const step *s, MPI_Session session, int *ranks)
{
    MPI_Group all;
    int mine, count;
    TRY(s, MPI_Group_from_session_pset(session, "mpi://WORLD", &all));
    TRY(s, MPI_Group_rank(all, &mine));
    TRY(s, MPI_Group_size(all, &count));
    TRY(s, MPI_Group_free(&all));
    log_result(s, "rank %d of %d processes", mine, count);
    TRY(s, MPI_Allgather(&mine, 1, MPI_INT, ranks, 1, MPI_INT, s->where->comm));
}

static void begin_all(const step *s, visit *v)
{
    begin(s, &v->steps[COMMUNICATORS_MAX], s->where, COMMUNICATORS_MAX);
    for (int i = 0; i < v->count; ++i) {
        begin(s, &v->steps[i], &v->list[i], i);
    }
}

void sessions_start(step *s)
{
    uint64_t random = seed_of(s->seed, 1), own = seed_of(s->seed, 60 + (uint64_t) s->where->rank);
    bool apart = fuzz_omits & GROUPS_WAIT;
    int ranks[RANKS_MAX];
    if (fuzz_omits & GROUPS) {
        return;
    }
    visit *v = s->state = calloc(1, sizeof *v);
    v->random = own;
    v->session_count = 1 + below(&random, SESSIONS_MAX);
    v->count = 1 + below(&random, COMMUNICATORS_MAX);
    if (!apart) {
        begin(s, &v->steps[COMMUNICATORS_MAX], s->where, COMMUNICATORS_MAX);
    }
    for (int i = 0; i < v->session_count; ++i) {
        open_session(s, &v->sessions[i], &random);
    }
    ask_session(s, v->sessions[0]);
    if (chance(&random, 2)) {
        raise_errors(s, v->sessions[v->session_count - 1]);
    }
    /* All are in this step when a rank leaves. */
    exchange_ranks(s, v->sessions[0], ranks);
    for (int i = 0; i < v->count; ++i) {
        make(s, v, i, ranks, &random);
        if (!apart) {
            begin(s, &v->steps[i], &v->list[i], i);
        }
    }
    if (apart) {
        begin_all(s, v);
    }
}

/* Frees communicators in any order that is the same for all, and sessions in any order. */
void sessions_finish(step *s)
{
    uint64_t random = seed_of(s->seed, 2);
    visit *v = s->state;
    if (v == NULL) {
        return;
    }
    int turn = below(&random, v->count), own_turn = below(&v->random, v->session_count);
    bool world_first = chance(&random, 2);
    if (world_first) {
        end(&v->steps[COMMUNICATORS_MAX]);
    }
    for (int i = 0; i < v->count; ++i) {
        end(&v->steps[i]);
    }
    for (int i = 0; i < v->count; ++i) {
        communicator_free(&v->list[(i + turn) % v->count]);
    }
    for (int i = 0; i < v->session_count; ++i) {
        log_words(s, "Session_finalize");
        TRY(s, MPI_Session_finalize(&v->sessions[(i + own_turn) % v->session_count]));
    }
    if (!world_first) {
        end(&v->steps[COMMUNICATORS_MAX]);
    }
    free(v);
}

#endif
