// SPDX-License-Identifier: BSD-3-Clause
/*
 * Messages that nobody receives, on a communicator that is then freed or revoked, in a job that
 * survives failed processes (Open MPI 5, mpirun --with-ft ulfm): their memory is given back, and
 * nothing is said. Communicators are of each kind that the info keys mpi_assert_no_any_source and
 * mpi_assert_no_any_tag make, which spread messages over several endpoints.
 */
#include "check.h"

#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <unistd.h>

#if defined(OMPI_HAVE_MPI_EXT_FTMPI) && OMPI_HAVE_MPI_EXT_FTMPI

enum {
    TAGS = 16,
    EARLY = 3, /* messages of the next barrier, at most */
    TEXT = 4096
};

static MPI_Comm everywhere; /* of this rank; spread over its endpoints */

static int find_variable(const char *wanted)
{
    int count = 0;
    MPI_T_pvar_get_num(&count);
    for (int i = 0; i < count; ++i) {
        char name[TEXT];
        int length = TEXT, verbosity, class, bind, readonly, continuous, atomic;
        MPI_Datatype type;
        if (MPI_T_pvar_get_info(i, name, &length, &verbosity, &class, &type, NULL, NULL, NULL,
                                &bind, &readonly, &continuous, &atomic)
                == MPI_SUCCESS
            && strcmp(name, wanted) == 0) {
            return i;
        }
    }
    FAIL("there is no variable %s", wanted);
}

/* Messages that wait for a receive. */
static unsigned long long unexpected(void)
{
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    unsigned long long value = 0;
    int elements = 0;
    CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS, "no session");
    CHECK(MPI_T_pvar_handle_alloc(session, find_variable("mtl_adaptib_unexpected_now"), NULL,
                                  &handle, &elements)
                  == MPI_SUCCESS
              && elements == 1,
          "no handle");
    CHECK(MPI_T_pvar_read(session, handle, &value) == MPI_SUCCESS, "no value");
    MPI_T_pvar_handle_free(session, &handle);
    MPI_T_pvar_session_free(&session);
    return value;
}

/* Makes progress on each endpoint, which renews the number of its messages. */
static void progress_all(void)
{
    for (int tag = 0; tag < TAGS; ++tag) {
        int flag;
        MPI_Iprobe(0, tag, everywhere, &flag, MPI_STATUS_IGNORE);
    }
}

/* Returns false if there are more or fewer for some seconds. */
static bool has_unexpected(unsigned long long least, unsigned long long most)
{
    const double end = MPI_Wtime() + 10;
    unsigned long long now;
    while (now = unexpected(), now < least || now > most) {
        if (MPI_Wtime() > end) {
            return false;
        }
        progress_all();
    }
    return true;
}

static MPI_Comm make(MPI_Comm from, bool no_any_source, bool no_any_tag)
{
    MPI_Info info;
    MPI_Comm comm;
    MPI_Info_create(&info);
    if (no_any_source) {
        MPI_Info_set(info, "mpi_assert_no_any_source", "true");
    }
    if (no_any_tag) {
        MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    }
    MPI_Comm_dup_with_info(from, info, &comm);
    MPI_Info_free(&info);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return comm;
}

static void send_unreceived(MPI_Comm comm)
{
    const int to = (check_rank + 1) % check_ranks;
    const int from = (check_rank + check_ranks - 1) % check_ranks;
    for (int tag = 0; tag < TAGS; ++tag) {
        int flag = 0;
        MPI_Send(&tag, 1, MPI_INT, to, tag, comm);
        while (!flag) {
            CHECK(MPI_Iprobe(from, tag, comm, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS,
                  "MPI_Iprobe fails");
        }
    }
}

/* Frees or revokes the communicator; nothing may be written to the standard error. */
static void end_quietly(MPI_Comm *comm, bool revoke)
{
    char text[TEXT];
    FILE *file = tmpfile();
    const int before = dup(STDERR_FILENO);
    CHECK(file != NULL && before >= 0, "no file");
    CHECK(dup2(fileno(file), STDERR_FILENO) >= 0, "dup2");
    const int rc = revoke ? MPIX_Comm_revoke(*comm) : MPI_Comm_free(comm);
    fflush(stderr);
    CHECK(dup2(before, STDERR_FILENO) >= 0, "dup2");
    rewind(file);
    const size_t bytes = fread(text, 1, sizeof text - 1, file);
    text[bytes] = '\0';
    CHECK(bytes == 0, "this was said: %s", text);
    CHECK(rc == MPI_SUCCESS, "%s fails", revoke ? "MPIX_Comm_revoke" : "MPI_Comm_free");
    fclose(file);
    close(before);
}

static void one_round(int kind, bool revoke)
{
    MPI_Comm comm = make(MPI_COMM_WORLD, kind & 1, kind & 2);
    send_unreceived(comm);
    CHECK(has_unexpected(TAGS, TAGS + EARLY), "kind %d: %llu messages wait, not %d", kind,
          unexpected(), TAGS);
    MPI_Barrier(MPI_COMM_WORLD);
    end_quietly(&comm, revoke);
    CHECK(has_unexpected(0, EARLY), "kind %d: %llu messages are left of a communicator that is %s",
          kind, unexpected(), revoke ? "revoked" : "freed");
    MPI_Barrier(MPI_COMM_WORLD);
    if (revoke) {
        MPI_Comm_free(&comm);
    }
}

int main(int argc, char **argv)
{
    int provided;
    check_begin(&argc, &argv, "drained", 2);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    everywhere = make(MPI_COMM_SELF, false, true);
    for (int kind = 0; kind < 4; ++kind) {
        one_round(kind, false);
        one_round(kind, true);
    }
    MPI_Comm_free(&everywhere);
    MPI_T_finalize();
    check_end();
    return 0;
}

#else

int main(int argc, char **argv)
{
    return check_skip(&argc, &argv);
}

#endif
