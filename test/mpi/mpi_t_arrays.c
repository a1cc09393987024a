// SPDX-License-Identifier: BSD-3-Clause
/* Counters by rail and by path as arrays of MPI_T: categories, the enumerating variable, and values
 * that grow with traffic. Two ranks, over the two virtual rails that test/mpi/LIST asks for. */
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum {
    BYTES = 1 << 20,
    ROUNDS = 20,
    RAILS = 2,
    PATHS = 16,
    TEXT = 256
};

/* The number of the performance variable, with its class and enumeration. */
static int find(const char *wanted, int *class, MPI_T_enum *enumeration)
{
    int count = 0;

    MPI_T_pvar_get_num(&count);
    for (int i = 0; i < count; ++i) {
        char name[TEXT];
        int length = TEXT, verbosity, bind, readonly, continuous, atomic;
        MPI_Datatype type;

        if (MPI_SUCCESS
                == MPI_T_pvar_get_info(i, name, &length, &verbosity, class, &type, enumeration,
                                       NULL, NULL, &bind, &readonly, &continuous, &atomic)
            && 0 == strcmp(name, wanted)) {
            return i;
        }
    }
    CHECK(0, "there is no variable %s", wanted);
    return -1;
}

typedef struct {
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    int elements;
} reader_t;

static void open_reader(reader_t *reader, int variable)
{
    CHECK(MPI_SUCCESS == MPI_T_pvar_session_create(&reader->session), "session");
    CHECK(MPI_SUCCESS
              == MPI_T_pvar_handle_alloc(reader->session, variable, NULL, &reader->handle,
                                         &reader->elements),
          "handle");
    CHECK(reader->elements <= PATHS, "%d elements", reader->elements);
}

/* Reads all elements, of a counter as they have grown since open_reader(); returns their number. */
static int read_and_close(reader_t *reader, void *values)
{
    CHECK(MPI_SUCCESS == MPI_T_pvar_read(reader->session, reader->handle, values), "read");
    MPI_T_pvar_handle_free(reader->session, &reader->handle);
    MPI_T_pvar_session_free(&reader->session);
    return reader->elements;
}

static void check_names(const char *variable, const char *first, int wanted)
{
    MPI_T_enum enumeration;
    char name[TEXT];
    int numbers[PATHS], length = TEXT, class, items = 0, value;
    reader_t reader;

    open_reader(&reader, find(variable, &class, &enumeration));

    CHECK(MPI_T_PVAR_CLASS_STATE == class, "%s is no state", variable);
    CHECK(MPI_SUCCESS == MPI_T_enum_get_info(enumeration, &items, name, &length) && wanted == items,
          "%s enumerates %d items", variable, items);
    length = TEXT;
    CHECK(MPI_SUCCESS == MPI_T_enum_get_item(enumeration, 0, &value, name, &length) && 0 == value
              && 0 == strcmp(name, first),
          "the first of %s is %s", variable, name);
    CHECK(wanted == read_and_close(&reader, numbers), "the elements of %s", variable);
    for (int i = 0; i < wanted; ++i) {
        CHECK(i == numbers[i], "element %d of %s is %d", i, variable, numbers[i]);
    }
}

static void check_category(const char *wanted)
{
    char name[TEXT], about[TEXT];
    int index, length = TEXT, about_length = TEXT, controls, variables = 0, categories;

    CHECK(MPI_SUCCESS == MPI_T_category_get_index(wanted, &index), "no category %s", wanted);
    CHECK(MPI_SUCCESS
              == MPI_T_category_get_info(index, name, &length, about, &about_length, &controls,
                                         &variables, &categories),
          "category %s", wanted);
    CHECK(2 == variables, "%s has %d variables", wanted, variables);
    CHECK(NULL != strstr(about, "in the order of the variable names"), "%s: %s", wanted, about);
}

static void exchange(int rank)
{
    char *out = calloc(1, BYTES), *in = calloc(1, BYTES);

    for (int i = 0; i < ROUNDS; ++i) {
        memset(out, i + rank, BYTES);
        MPI_Sendrecv(out, BYTES, MPI_CHAR, 1 - rank, 0, in, BYTES, MPI_CHAR, 1 - rank, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(in[BYTES - 1] == i + 1 - rank, "round %d", i);
    }
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    unsigned long long bytes[PATHS] = {0}, weights[PATHS] = {0}, moved = 0;
    int provided, class;
    MPI_T_enum none;
    reader_t rails, paths;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    check_begin(&argc, &argv, "mpi_t_arrays", 2);
    check_names("common_adaptib_rails_names", "shm0", RAILS);
    check_names("common_adaptib_paths_names", "path 0", PATHS);
    check_category("opal_common_adaptib_rails");
    check_category("opal_common_adaptib_paths");
    open_reader(&rails, find("common_adaptib_rails_bytes", &class, &none));
    CHECK(MPI_T_PVAR_CLASS_COUNTER == class, "class %d", class);
    open_reader(&paths, find("common_adaptib_paths_weights", &class, &none));
    exchange(check_rank);
    CHECK(RAILS == read_and_close(&rails, bytes), "rails");
    for (int i = 0; i < RAILS; ++i) {
        moved += bytes[i];
        CHECK(bytes[i] > 0, "rail %d has carried nothing", i);
    }
    CHECK(moved >= (unsigned long long) BYTES * ROUNDS, "%llu bytes", moved);
    CHECK(PATHS == read_and_close(&paths, weights), "paths");
    for (int i = 0; i < PATHS; ++i) { /* in 1/1000; none if no stripe could be timed */
        CHECK(weights[i] <= (i < RAILS ? 1000 : 0), "weight %d is %llu", i, weights[i]);
    }
    MPI_T_finalize();
    check_end();
    return 0;
}
