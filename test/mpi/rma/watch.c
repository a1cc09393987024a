// SPDX-License-Identifier: BSD-3-Clause
/*
 * Failures and hangs end with a report: the program, the command that repeats it, and the step of
 * each rank.
 *
 * Every thread notes its current step in a place of its own (step). A round that takes longer than
 * options.hang ends by a signal in each rank: each rank prints the steps of its threads, gives the
 * others OTHERS_SPEAK_S seconds to print theirs, and aborts. Signals of crashes print the same
 * before the process ends. The handlers format with snprintf, which is not async-signal-safe, but
 * the process ends there in any case.
 */
#include "mpi/rma/stress.h"

#include <signal.h>
#include <unistd.h>

enum {
    OTHERS_SPEAK_S = 3,
    ARGUMENTS = 4096
};

typedef struct {
    const char *volatile what;
    volatile long first, second;
} place_in_program;

static place_in_program places[THREADS_MAX];
static uint64_t now_seed;
static const char *now_kind = "start";
static int now_round;
static char command[ARGUMENTS];
static MPI_Errhandler win_errors;
static struct sigaction before[NSIG];
extern char **environ;

static void say(const char *text)
{
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void) ignored;
}

void step(const char *what, long first, long second)
{
    place_in_program *here = &places[stress_thread];
    here->what = what;
    here->first = first;
    here->second = second;
    if (options.trace) {
        char line[256];
        snprintf(line, sizeof line, "[%d.%d] %s (%ld, %ld)\n", stress_rank, stress_thread, what,
                 first, second);
        say(line);
    }
}

static void say_where(const char *why)
{
    char line[512];
    snprintf(line, sizeof line, "rma_stress, rank %d of %d: %s in seed %lu, %s, round %d\n",
             stress_rank, stress_ranks, why, (unsigned long) now_seed, now_kind, now_round);
    say(line);
    for (int i = 0; i < options.threads; ++i) {
        const char *what = places[i].what;
        snprintf(line, sizeof line, "    rank %d, thread %d: %s (%ld, %ld)\n", stress_rank, i,
                 what != NULL ? what : "not begun", places[i].first, places[i].second);
        say(line);
    }
}

static void say_command(void)
{
    char line[ARGUMENTS + 512];
    snprintf(
        line, sizeof line,
        "    to repeat: %s --seed %lu\n    that round alone: the same with --only %s --round %d\n",
        command, (unsigned long) now_seed, now_kind, now_round);
    say(line);
}

void stress_fail(const char *file, int line, const char *format, ...)
{
    char text[1024], all[1400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const char *name = strrchr(file, '/');
    snprintf(all, sizeof all, "FAILED rma_stress, rank %d, %s:%d: %s\n", stress_rank,
             name != NULL ? name + 1 : file, line, text);
    say(all);
    say_where("failed");
    say_command();
    signal(SIGABRT, SIG_DFL);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

static void on_alarm(int number)
{
    (void) number;
    say_where("no end of a round");
    say_command();
    sleep(OTHERS_SPEAK_S);
    _exit(1);
}

static void on_crash(int number)
{
    say_where(strsignal(number));
    say_command();
    sigaction(number, &before[number], NULL);
    raise(number);
}

static void on_exit_in_between(void)
{
    if (now_kind != NULL) {
        say_where("the process was ended");
        say_command();
    }
}

static void fail_of(int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(code, text, &length);
    FAIL("MPI: %s", text);
}

static void on_win_error(MPI_Win *win, int *code, ...)
{
    (void) win;
    fail_of(*code);
}

static void on_comm_error(MPI_Comm *comm, int *code, ...)
{
    (void) comm;
    fail_of(*code);
}

/* True for options that choose seeds or a round; the command to repeat a round omits these. */
static bool chooses(const char *word)
{
    static const char *const words[] = {"--seed", "--seeds", "--seconds", "--round"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; ++i) {
        if (strcmp(word, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void append(const char *format, const char *a, const char *b)
{
    size_t length = strlen(command);
    snprintf(command + length, sizeof command - length, format, a, b);
}

/* True for MCA parameters that the command to repeat a round includes. mpirun passes parameters on
 * in the environment. */
static bool parameter_matters(const char *name)
{
    static const char *const begins[] = {
        "pml=", "mtl=", "btl=", "osc=", "osc_rdma_", "btl_", "mtl_", "opal_common_adaptib_"};
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; ++i) {
        if (strncmp(name, begins[i], strlen(begins[i])) == 0) {
            return true;
        }
    }
    return false;
}

static void make_command(int argc, char **argv)
{
    char ranks[16];
    snprintf(ranks, sizeof ranks, "%d", stress_ranks);
    append("mpirun --oversubscribe -np %s%s", ranks, "");
    for (char **variable = environ; *variable != NULL; ++variable) {
        static const char begin[] = "OMPI_MCA_";
        if (strncmp(*variable, begin, sizeof begin - 1) != 0
            || !parameter_matters(*variable + sizeof begin - 1)) {
            continue;
        }
        char name[256];
        snprintf(name, sizeof name, "%s", *variable + sizeof begin - 1);
        char *value = strchr(name, '=');
        if (value != NULL) {
            *value = '\0';
            append(" --mca %s %s", name, value + 1);
        }
    }
    append(" %s%s", argv[0], "");
    for (int i = 1; i < argc; ++i) {
        if (chooses(argv[i])) {
            ++i;
        } else {
            append(" %s%s", argv[i], "");
        }
    }
}

void watch_begin(int argc, char **argv)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    MPI_Errhandler comm_errors;
    make_command(argc, argv);
    MPI_Win_create_errhandler(on_win_error, &win_errors);
    MPI_Comm_create_errhandler(on_comm_error, &comm_errors);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, comm_errors);
    MPI_Errhandler_free(&comm_errors);
    signal(SIGALRM, on_alarm);
    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; ++i) {
        struct sigaction action = {.sa_handler = on_crash};
        sigaction(crashes[i], &action, &before[crashes[i]]);
    }
    atexit(on_exit_in_between);
}

void watch_window(MPI_Win win)
{
    MPI_Win_set_errhandler(win, win_errors);
}

void watch_round(uint64_t seed, const char *kind, int round)
{
    now_seed = seed;
    now_kind = kind;
    now_round = round;
    step("begin of a round", 0, 0);
    alarm(options.hang);
}

void watch_end(void)
{
    MPI_Errhandler_free(&win_errors);
    watch_round(now_seed, "MPI_Finalize", 0);
    MPI_Finalize();
    alarm(0);
    now_kind = NULL;
}
