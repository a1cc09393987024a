// SPDX-License-Identifier: BSD-3-Clause
/*
 * Latency of the devices without MPI, for benchmarks/compare --vm: a ping-pong over a reliable
 * connection between two processes, one on each device, which poll, and yield the processor when
 * there is nothing. (The perftest programs poll without yielding, or sleep; where both ends share a
 * processor, neither gives the least time.)
 *
 *     raw_verbs DEVICE DEVICE GID_INDEX REPETITIONS SIZE...
 *
 * Prints half of a round trip, the median of REPETITIONS, as `KIND SIZE us` for each kind:
 *   raw_send        send and receive
 *   raw_write       RDMA write, its last byte polled
 *   raw_eager       minimum for a short MPI message: a header of 32 bytes and the data, copied into
 *                   registered memory, sent by one RDMA write, polled, copied out
 *   raw_eager_ob1   the same with another 16 bytes, pml/ob1's header, before the data
 *   raw_rendezvous  minimum for a long MPI message: an announcement (RTS) of 64 bytes, an RDMA read
 *                   of the data by the receiver, a FIN of 32 bytes
 * May touch: libibverbs.
 */
#include <infiniband/verbs.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    LARGEST = 1 << 20,
    HEADER = 32,
    OB1_HEADER = 16,
    ANNOUNCEMENT = 64,
    END_OF_READ = 32,
    ROOM = LARGEST + HEADER + OB1_HEADER + ANNOUNCEMENT,
    WARM = 20,
    MOST = 10000
};

/* Data that each end sends to the other to connect. */
struct address {
    union ibv_gid gid;
    uint64_t in, out;
    uint32_t in_key, out_key, qp;
};

struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *out_region, *in_region;
    volatile unsigned char *in;
    unsigned char *out, *user;
    uint32_t inline_bytes;
    uint32_t header; /* bytes before the data of an eager message */
    struct address peer;
};

static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("raw_verbs: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    exit(1);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + 1e-9 * (double) time.tv_nsec;
}

static unsigned char *pages(void)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, ROOM) != 0) {
        fail("no memory");
    }
    memset(memory, 0, ROOM);
    return memory;
}

static void open_device(struct end *end, const char *name)
{
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    for (int i = 0; i < count; ++i) {
        if (strcmp(ibv_get_device_name(list[i]), name) == 0) {
            end->context = ibv_open_device(list[i]);
        }
    }
    if (end->context == NULL) {
        fail("there is no device %s", name);
    }
    ibv_free_device_list(list);
}

static void make(struct end *end, const char *device)
{
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    open_device(end, device);
    end->out = pages();
    end->in = pages();
    end->user = pages();
    end->pd = ibv_alloc_pd(end->context);
    end->cq = end->pd == NULL ? NULL : ibv_create_cq(end->context, 256, NULL, NULL, 0);
    if (end->cq == NULL) {
        fail("%s: no completion queue", device);
    }
    end->out_region = ibv_reg_mr(end->pd, end->out, ROOM, access);
    end->in_region = ibv_reg_mr(end->pd, (void *) end->in, ROOM, access);
    struct ibv_qp_init_attr init = {.send_cq = end->cq,
                                    .recv_cq = end->cq,
                                    .cap = {.max_send_wr = 64,
                                            .max_recv_wr = 64,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1,
                                            .max_inline_data = 128},
                                    .qp_type = IBV_QPT_RC};
    end->qp = ibv_create_qp(end->pd, &init);
    if (end->out_region == NULL || end->in_region == NULL || end->qp == NULL) {
        fail("%s: no regions or queue pair", device);
    }
    end->inline_bytes = init.cap.max_inline_data;
}

static void connect_to_peer(struct end *end, int gid_index, int channel)
{
    struct address self = {.in = (uintptr_t) end->in,
                           .out = (uintptr_t) end->out,
                           .in_key = end->in_region->rkey,
                           .out_key = end->out_region->rkey,
                           .qp = end->qp->qp_num};
    struct ibv_port_attr port;
    if (ibv_query_gid(end->context, 1, gid_index, &self.gid) != 0
        || ibv_query_port(end->context, 1, &port) != 0
        || write(channel, &self, sizeof self) != sizeof self
        || read(channel, &end->peer, sizeof end->peer) != sizeof end->peer) {
        fail("no addresses");
    }
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT,
                                     .port_num = 1,
                                     .qp_access_flags =
                                         IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    int result = ibv_modify_qp(
        end->qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = port.active_mtu;
    attributes.dest_qp_num = end->peer.qp;
    attributes.min_rnr_timer = 1;
    attributes.max_dest_rd_atomic = 1;
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.port_num = 1;
    attributes.ah_attr.dlid = port.lid;
    attributes.ah_attr.grh.dgid = end->peer.gid;
    attributes.ah_attr.grh.sgid_index = (uint8_t) gid_index;
    attributes.ah_attr.grh.hop_limit = 1;
    result |= ibv_modify_qp(end->qp, &attributes,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN
                                | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    attributes.qp_state = IBV_QPS_RTS;
    attributes.timeout = 18;
    attributes.retry_cnt = 6;
    attributes.rnr_retry = 7;
    attributes.max_rd_atomic = 1;
    result |= ibv_modify_qp(end->qp, &attributes,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY
                                | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    if (result != 0) {
        fail("the queue pairs cannot be connected");
    }
}

/* Waits until the other end calls it too: both are connected then, or have posted receives. */
static void meet(int channel)
{
    char byte = 0;
    if (write(channel, &byte, 1) != 1 || read(channel, &byte, 1) != 1) {
        fail("the other end has gone");
    }
}

/* Posts a transfer of the first `size` bytes: from `out` to the peer's `in`, or, for a read, from
 * the peer's `out` to `in`. */
static void post(struct end *end, enum ibv_wr_opcode opcode, uint32_t size)
{
    const bool reads = opcode == IBV_WR_RDMA_READ;
    struct ibv_sge sge = {.addr = (uintptr_t) (reads ? end->in : end->out),
                          .length = size,
                          .lkey = (reads ? end->in_region : end->out_region)->lkey};
    struct ibv_send_wr request = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = opcode,
        .send_flags =
            IBV_SEND_SIGNALED | (size <= end->inline_bytes && !reads ? IBV_SEND_INLINE : 0),
        .wr.rdma = {.remote_addr = reads ? end->peer.out : end->peer.in,
                    .rkey = reads ? end->peer.out_key : end->peer.in_key}};
    struct ibv_send_wr *bad;
    if (ibv_post_send(end->qp, &request, &bad) != 0) {
        fail("ibv_post_send");
    }
}

static void post_receive(struct end *end)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t) end->in, .length = LARGEST, .lkey = end->in_region->lkey};
    struct ibv_recv_wr request = {.sg_list = &sge, .num_sge = 1}, *bad;
    if (ibv_post_recv(end->qp, &request, &bad) != 0) {
        fail("ibv_post_recv");
    }
}

/* Returns the number of completed sends; adds that of completed receives to `received`. */
static int poll_once(struct end *end, int *received)
{
    struct ibv_wc done[4];
    int sent = 0;
    const int count = ibv_poll_cq(end->cq, 4, done);
    for (int i = 0; i < count; ++i) {
        if (done[i].status != IBV_WC_SUCCESS) {
            fail("completion: %s", ibv_wc_status_str(done[i].status));
        }
        if ((done[i].opcode & IBV_WC_RECV) != 0) {
            ++*received;
        } else {
            ++sent;
        }
    }
    return sent;
}

/* Operations under way at this end. */
struct traffic {
    int received; /* received messages not yet consumed */
    int unsent;
};

static void wait_until_sent(struct end *end, struct traffic *traffic)
{
    while (traffic->unsent > 0) {
        const int sent = poll_once(end, &traffic->received);
        traffic->unsent -= sent;
        if (sent == 0) {
            sched_yield();
        }
    }
}

/* Waits for earlier sends, as they use the same buffer; then marks its last byte and posts it. */
static void write_marked(struct end *end, enum ibv_wr_opcode opcode, uint32_t size,
                         unsigned char value, struct traffic *traffic)
{
    wait_until_sent(end, traffic);
    end->out[size - 1] = value;
    post(end, opcode, size);
    ++traffic->unsent;
}

static void wait_for_mark(struct end *end, uint32_t size, unsigned char value)
{
    while (end->in[size - 1] != value) {
        sched_yield();
    }
}

static void send_message(struct end *end, uint32_t size, unsigned char value,
                         struct traffic *traffic)
{
    write_marked(end, IBV_WR_SEND, size, value, traffic);
}

static void receive_message(struct end *end, uint32_t size, unsigned char value,
                            struct traffic *traffic)
{
    (void) size;
    (void) value;
    while (traffic->received == 0) {
        const int sent = poll_once(end, &traffic->received);
        traffic->unsent -= sent;
        if (sent == 0 && traffic->received == 0) {
            sched_yield();
        }
    }
    --traffic->received;
    post_receive(end);
}

static void send_write(struct end *end, uint32_t size, unsigned char value, struct traffic *traffic)
{
    write_marked(end, IBV_WR_RDMA_WRITE, size, value, traffic);
}

static void receive_write(struct end *end, uint32_t size, unsigned char value,
                          struct traffic *traffic)
{
    (void) traffic;
    wait_for_mark(end, size, value);
}

static void send_eager(struct end *end, uint32_t size, unsigned char value, struct traffic *traffic)
{
    wait_until_sent(end, traffic);
    memcpy(end->out + end->header, end->user, size);
    write_marked(end, IBV_WR_RDMA_WRITE, end->header + size, value, traffic);
}

static void receive_eager(struct end *end, uint32_t size, unsigned char value,
                          struct traffic *traffic)
{
    (void) traffic;
    wait_for_mark(end, end->header + size, value);
    memcpy(end->user, (unsigned char *) end->in + end->header, size);
}

/* The receiver reads the data from this end's `out`, which also holds the announcement. Returns
 * when the receiver reports the end of its read. */
static void send_rendezvous(struct end *end, uint32_t size, unsigned char value,
                            struct traffic *traffic)
{
    (void) size;
    write_marked(end, IBV_WR_RDMA_WRITE, ANNOUNCEMENT, value, traffic);
    wait_for_mark(end, END_OF_READ, value);
}

static void receive_rendezvous(struct end *end, uint32_t size, unsigned char value,
                               struct traffic *traffic)
{
    wait_for_mark(end, ANNOUNCEMENT, value);
    wait_until_sent(end, traffic);
    post(end, IBV_WR_RDMA_READ, size);
    ++traffic->unsent;
    wait_until_sent(end, traffic);
    write_marked(end, IBV_WR_RDMA_WRITE, END_OF_READ, value, traffic);
}

/* A kind of message. `value` is the mark in its last byte, and differs from message to message. */
struct kind {
    const char *name;
    uint32_t header;
    void (*send)(struct end *, uint32_t size, unsigned char value, struct traffic *);
    void (*receive)(struct end *, uint32_t size, unsigned char value, struct traffic *);
};

static const struct kind kinds[] = {
    {"raw_send", 0, send_message, receive_message},
    {"raw_write", 0, send_write, receive_write},
    {"raw_eager", HEADER, send_eager, receive_eager},
    {"raw_eager_ob1", HEADER + OB1_HEADER, send_eager, receive_eager},
    {"raw_rendezvous", 0, send_rendezvous, receive_rendezvous}};

static int by_value(const void *left, const void *right)
{
    const double a = *(const double *) left, b = *(const double *) right;
    return (a > b) - (a < b);
}

static void measure(struct end *end, bool first, int channel, const struct kind *kind,
                    uint32_t size, int repetitions)
{
    static double times[MOST];
    static struct traffic traffic;
    unsigned char value = 0;
    end->header = kind->header;
    memset((void *) end->in, 0, ROOM); /* removes old marks */
    meet(channel);
    for (int i = -WARM; i < repetitions; ++i) {
        const double start = now();
        value = (unsigned char) (value % 100 + 1);
        (first ? kind->send : kind->receive)(end, size, value, &traffic);
        value = (unsigned char) (value % 100 + 1);
        (first ? kind->receive : kind->send)(end, size, value, &traffic);
        if (i >= 0) {
            times[i] = (now() - start) / 2;
        }
    }
    wait_until_sent(end, &traffic);
    meet(channel);
    if (first) {
        qsort(times, (size_t) repetitions, sizeof *times, by_value);
        printf("%s %u %.5g\n", kind->name, size, 1e6 * times[repetitions / 2]);
        fflush(stdout);
    }
}

static void run(bool first, int channel, char **argv)
{
    static struct end end;
    make(&end, argv[first ? 1 : 2]);
    connect_to_peer(&end, atoi(argv[3]), channel);
    for (int i = 0; i < 4; ++i) {
        post_receive(&end);
    }
    const int repetitions = atoi(argv[4]);
    for (char **size = argv + 5; *size != NULL; ++size) {
        for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; ++kind) {
            measure(&end, first, channel, &kinds[kind], (uint32_t) atoi(*size), repetitions);
        }
    }
    meet(channel);
}

int main(int argc, char **argv)
{
    int channel[2];
    const int repetitions = argc > 5 ? atoi(argv[4]) : 0;
    if (repetitions < 1 || repetitions > MOST) {
        fail("usage: raw_verbs DEVICE DEVICE GID_INDEX REPETITIONS SIZE...");
    }
    for (int i = 5; i < argc; ++i) {
        if (atoi(argv[i]) < 1 || atoi(argv[i]) > LARGEST) {
            fail("a size is 1 to %d bytes, not %s", LARGEST, argv[i]);
        }
    }
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, channel) != 0) {
        fail("no socket");
    }
    const pid_t other = fork();
    if (other == -1) {
        fail("no process");
    }
    if (other == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run(false, channel[1], argv);
        return 0;
    }
    run(true, channel[0], argv);
    int status = 0;
    return waitpid(other, &status, 0) == other && status == 0 ? 0 : 1;
}
