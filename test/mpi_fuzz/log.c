// SPDX-License-Identifier: BSD-3-Clause
/*
 * The log of a rank: one line for each result, "SEED STEP TEXT". Lines of words begin with '#', and
 * the comparison leaves them out. Threads of a step write lines of their own lanes, in any order.
 */
#include "mpi_fuzz/fuzz.h"

#include <signal.h>
#include <unistd.h>

static FILE *out;
static bool with_words;
static uint64_t seed_now;
static char where_now[64];

static void watchdog(int number)
{
    static const char text[] = "mpi_fuzz: hangs in ";
    (void) number;
    (void) !write(2, text, sizeof text - 1);
    (void) !write(2, where_now, strlen(where_now));
    (void) !write(2, "\n", 1);
    _exit(3);
}

void log_open(const char *directory, bool words)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/rank.%d", directory, fuzz_rank);
    out = fopen(path, "w");
    CHECK(out != NULL, "%s cannot be written", path);
    setvbuf(out, NULL, _IOFBF, 1 << 20);
    with_words = words;
    signal(SIGALRM, watchdog);
}

void log_seed(uint64_t seed)
{
    seed_now = seed;
}

void log_step(const step *s)
{
    snprintf(where_now, sizeof where_now, "seed %llu, step %d, rank %d",
             (unsigned long long) seed_now, s->number, fuzz_rank);
    fprintf(out, "# %llu %d %s on %s\n", (unsigned long long) seed_now, s->number, s->kind->name,
            s->where->comm == MPI_COMM_NULL ? "nothing" : s->where->name);
    fflush(out);
    alarm(fuzz_patience);
}

void log_close(void)
{
    alarm(0);
    fprintf(out, "end\n");
    fclose(out);
}

static void line(const char *mark, const step *s, const char *format, va_list arguments)
{
    char text[1024];
    vsnprintf(text, sizeof text, format, arguments);
    fprintf(out, "%s%llu %d.%d %s\n", mark, (unsigned long long) seed_now, s ? s->number : 0,
            s ? s->lane : 0, text);
}

void log_result(const step *s, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    line("", s, format, arguments);
    va_end(arguments);
}

void log_words(const step *s, const char *format, ...)
{
    if (with_words) {
        va_list arguments;
        va_start(arguments, format);
        line("# ", s, format, arguments);
        va_end(arguments);
        fflush(out);
    }
}

int error_class(int code)
{
    int class = MPI_SUCCESS;
    if (code != MPI_SUCCESS) {
        MPI_Error_class(code, &class);
    }
    return class;
}

int log_code(const step *s, const char *call, int code)
{
    if (code != MPI_SUCCESS) {
        log_result(s, "error class %d of %.*s", error_class(code), (int) strcspn(call, "("), call);
    }
    return code;
}

void log_status(const step *s, const char *what, const MPI_Status *status, const side *b, int error)
{
    int count = 0, cancelled = 0;
    MPI_Count elements = 0;
    MPI_Test_cancelled(status, &cancelled);
    if (error != MPI_SUCCESS || b == NULL) {
        log_result(s, "%s: source %d tag %d error %d cancelled %d", what, status->MPI_SOURCE,
                   status->MPI_TAG, error, cancelled);
        return;
    }
    MPI_Get_count(status, b->type_gone ? MPI_BYTE : b->type, &count);
    MPI_Get_elements_x(status, b->type_gone ? MPI_BYTE : b->type, &elements);
    log_result(s, "%s: source %d tag %d count %d elements %lld cancelled %d", what,
               status->MPI_SOURCE, status->MPI_TAG, count, (long long) elements, cancelled);
}
