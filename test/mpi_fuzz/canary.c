// SPDX-License-Identifier: BSD-3-Clause
/*
 * Faults for the comparison to find: ADAPTIB_MPI_FUZZ_CANARY names one, and functions of MPI that
 * this program calls then do wrong, on the last rank, what a transport could do wrong. Also
 * buffered sends' memory.
 */
#include "mpi_fuzz/fuzz.h"

static const char *canary = "";

void canary_begin(void)
{
    const char *name = getenv("ADAPTIB_MPI_FUZZ_CANARY");
    canary = name != NULL && fuzz_rank == fuzz_ranks - 1 ? name : "";
}

static bool is(const char *name)
{
    return canary[0] != '\0' && strcmp(canary, name) == 0;
}

/* byte: the last byte of a received message is wrong. tag: a status has another one's tag. */
int MPI_Recv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status *status)
{
    int code = PMPI_Recv(buffer, count, type, source, tag, comm, status);
    int bytes = 0;
    if (canary[0] != '\0' && status != MPI_STATUS_IGNORE && code == MPI_SUCCESS) {
        PMPI_Get_count(status, MPI_BYTE, &bytes);
        MPI_Aint lower, extent;
        PMPI_Type_get_true_extent(type, &lower, &extent);
        if (is("byte") && bytes > 1000) {
            ((unsigned char *) buffer)[lower + extent - 1] ^= 4;
        }
        if (is("tag") && bytes > 0) {
            status->MPI_TAG ^= 1;
        }
    }
    return code;
}

/* count: a status of many has a count that is too small. lost_error: truncation is not told. */
int MPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses)
{
    int code = PMPI_Waitall(count, requests, statuses);
    for (int i = 0; i < count && statuses != MPI_STATUSES_IGNORE; ++i) {
        int bytes = 0;
        PMPI_Get_count(&statuses[i], MPI_BYTE, &bytes);
        if (is("count") && code == MPI_SUCCESS && bytes > 100) {
            PMPI_Status_set_elements(&statuses[i], MPI_BYTE, bytes - 1);
        }
        if (is("lost_error") && code == MPI_ERR_IN_STATUS) {
            statuses[i].MPI_ERROR = MPI_SUCCESS;
        }
    }
    return code;
}

/* order: a message overtakes the one before it, which is in `late`. */
static struct {
    unsigned char bytes[128];
    int count, target, tag;
    MPI_Comm comm;
    bool there;
} late;

void canary_flush(void)
{
    if (late.there) {
        late.there = false;
        PMPI_Send(late.bytes, late.count, MPI_PACKED, late.target, late.tag, late.comm);
    }
}

/* from_group: a message over the latest communicator of a session has another tag. */
static MPI_Comm of_session = MPI_COMM_NULL;

int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int target, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    int size;
    PMPI_Type_size(type, &size);
    if (is("order") && !late.there && count * size <= (int) sizeof late.bytes) {
        late.count = 0;
        PMPI_Pack(buffer, count, type, late.bytes, sizeof late.bytes, &late.count, comm);
        late.target = target;
        late.tag = tag;
        late.comm = comm;
        late.there = true;
        *request = MPI_REQUEST_NULL;
        return MPI_SUCCESS;
    }
    if (is("from_group") && comm == of_session) {
        tag ^= 1;
    }
    int code = PMPI_Isend(buffer, count, type, target, tag, comm, request);
    canary_flush();
    return code;
}

/* hang: a message is never sent. */
int MPI_Issend(const void *buffer, int count, MPI_Datatype type, int target, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    if (is("hang")) {
        *request = MPI_REQUEST_NULL;
        return MPI_SUCCESS;
    }
    return PMPI_Issend(buffer, count, type, target, tag, comm, request);
}

/* put: nothing is stored at the target. */
int MPI_Put(const void *buffer, int count, MPI_Datatype type, int target, MPI_Aint at,
            int target_count, MPI_Datatype target_type, MPI_Win win)
{
    if (is("put")) {
        return MPI_SUCCESS;
    }
    return PMPI_Put(buffer, count, type, target, at, target_count, target_type, win);
}

/* reduction: one bit of the first element is wrong. */
int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm)
{
    int code = PMPI_Allreduce(from, to, count, type, op, comm);
    if (is("reduction") && count > 0) {
        *(unsigned char *) to ^= 1;
    }
    return code;
}

#if FUZZ_MPI_4

/* partition: the first byte of a partition of the latest partitioned send is wrong. */
static struct {
    unsigned char *at;
    MPI_Aint distance; /* of partitions */
    MPI_Request request;
} parted;

int MPI_Psend_init(const void *buffer, int partitions, MPI_Count count, MPI_Datatype type,
                   int target, int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    int code = PMPI_Psend_init(buffer, partitions, count, type, target, tag, comm, info, request);
    MPI_Aint lower, extent;
    int size;
    PMPI_Type_size(type, &size);
    if (is("partition") && count > 0 && size > 0) {
        PMPI_Type_get_true_extent(type, &lower, &extent);
        parted.at = (unsigned char *) buffer + lower;
        PMPI_Type_get_extent(type, &lower, &extent);
        parted.distance = (MPI_Aint) count * extent;
        parted.request = *request;
    }
    return code;
}

int MPI_Pready(int partition, MPI_Request request)
{
    if (is("partition") && parted.at != NULL && request == parted.request) {
        parted.at[partition * parted.distance] ^= 1;
    }
    return PMPI_Pready(partition, request);
}

/* arrived: all partitions are told to be there. */
int MPI_Parrived(MPI_Request request, int partition, int *flag)
{
    int code = PMPI_Parrived(request, partition, flag);
    if (is("arrived")) {
        *flag = 1;
    }
    return code;
}

int MPI_Comm_create_from_group(MPI_Group group, const char *tag, MPI_Info info,
                               MPI_Errhandler errhandler, MPI_Comm *comm)
{
    int code = PMPI_Comm_create_from_group(group, tag, info, errhandler, comm);
    if (is("from_group")) {
        of_session = *comm;
    }
    return code;
}

#endif
