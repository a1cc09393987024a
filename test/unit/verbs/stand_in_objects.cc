// SPDX-License-Identifier: BSD-3-Clause
// The stand-in: calls about objects, with the rules that libibverbs and adapters keep.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <string>

#include "unit/verbs/stand_in.h"

namespace adaptib::test {

namespace {

StandIn& self() { return StandIn::current(); }

// Calls that return a pointer give their error by errno.
template <typename T> T* refuse(int error) {
    errno = error;
    return nullptr;
}

// Common part of all destroy calls; 0: the call may go on.
template <typename T> int end_object(const char* call, T& object, int users) {
    if (const int error = self().enter(call)) {
        return error;
    }
    if (!object.alive) {
        self().complain(std::string(call) + ": twice");
    }
    return users > 0 ? EBUSY : 0;
}

template <typename T> void check_acknowledged(const char* call, const T& object) {
    if (object.unacknowledged != 0) {
        self().complain(std::string(call) + ": would wait for an event to be acknowledged");
    }
}

// -------------------------------------------------------------------------------------------------
// Protection domains, memory, address handles

ibv_pd* alloc_pd(ibv_context* context) {
    if (const int error = self().enter("alloc_pd")) {
        return refuse<ibv_pd>(error);
    }
    auto& pd = self().pds.emplace_back(std::make_unique<FakePd>());
    pd->context = context;
    return pd.get();
}

int dealloc_pd(ibv_pd* pd) {
    auto& fake = *static_cast<FakePd*>(pd);
    const int error = end_object("dealloc_pd", fake, fake.users);
    fake.alive = fake.alive && error != 0;
    return error;
}

ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) {
    if (const int error = self().enter("reg_mr")) {
        return refuse<ibv_mr>(error);
    }
    if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0 &&
        (access & IBV_ACCESS_LOCAL_WRITE) == 0) {
        self().complain("reg_mr: remote rights without the local one");
    }
    auto& mr = self().mrs.emplace_back(std::make_unique<FakeMr>());
    mr->context = pd->context;
    mr->pd = pd;
    mr->addr = address;
    mr->length = length;
    mr->access = access;
    mr->lkey = static_cast<std::uint32_t>(1000 + self().mrs.size());
    mr->rkey = static_cast<std::uint32_t>(2000 + self().mrs.size());
    ++static_cast<FakePd*>(pd)->users;
    return mr.get();
}

ibv_mr* reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t address,
                      int file, int access) {
    if (const int error = self().enter("reg_dmabuf_mr")) {
        return refuse<ibv_mr>(error);
    }
    auto* const mr =
        static_cast<FakeMr*>(reg_mr(pd, reinterpret_cast<void*>(address), length, access));
    if (mr != nullptr) {
        mr->file = file;
        mr->offset = offset;
    }
    return mr;
}

int dereg_mr(ibv_mr* mr) {
    auto& fake = *static_cast<FakeMr*>(mr);
    if (const int error = end_object("dereg_mr", fake, 0)) {
        return error;
    }
    fake.alive = false;
    --static_cast<FakePd*>(mr->pd)->users;
    return 0;
}

void check_vector(const char* call, ibv_context* context, const ibv_ah_attr& ah) {
    const FakeDevice& device = self().device_of(context);
    if (ah.port_num < 1 || ah.port_num > device.ports.size()) {
        self().complain(std::string(call) + ": no such port");
        return;
    }
    const FakePort& port = device.ports[ah.port_num - 1];
    const bool ethernet = port.attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
    if (ethernet && ah.is_global == 0) {
        self().complain(std::string(call) + ": RoCE goes by GID");
    }
    if (ah.is_global != 0 && (ah.grh.sgid_index >= port.gids.size() || ah.grh.hop_limit < 2)) {
        self().complain(std::string(call) + ": GID index or hop limit");
    }
    if (!ethernet && ah.dlid == 0) {
        self().complain(std::string(call) + ": InfiniBand goes by LID");
    }
}

ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
    if (const int error = self().enter("create_ah")) {
        return refuse<ibv_ah>(error);
    }
    check_vector("create_ah", pd->context, *attributes);
    auto& ah = self().ahs.emplace_back(std::make_unique<FakeAh>());
    ah->context = pd->context;
    ah->pd = pd;
    ah->attributes = *attributes;
    ++static_cast<FakePd*>(pd)->users;
    return ah.get();
}

int destroy_ah(ibv_ah* ah) {
    auto& fake = *static_cast<FakeAh*>(ah);
    if (const int error = end_object("destroy_ah", fake, 0)) {
        return error;
    }
    fake.alive = false;
    --static_cast<FakePd*>(ah->pd)->users;
    return 0;
}

// -------------------------------------------------------------------------------------------------
// Queues

ibv_comp_channel* create_comp_channel(ibv_context* context) {
    if (const int error = self().enter("create_comp_channel")) {
        return refuse<ibv_comp_channel>(error);
    }
    auto& channel = self().channels.emplace_back(std::make_unique<FakeCompletionChannel>());
    channel->context = context;
    channel->fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    return channel.get();
}

int destroy_comp_channel(ibv_comp_channel* channel) {
    auto& fake = *static_cast<FakeCompletionChannel*>(channel);
    const int error = end_object("destroy_comp_channel", fake, fake.users);
    if (error == 0) {
        close(channel->fd);
        fake.alive = false;
    }
    return error;
}

// Reads the descriptor, as the library does.
int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
    if ((fcntl(channel->fd, F_GETFL) & O_NONBLOCK) == 0) {
        self().complain("get_cq_event would block");
    }
    std::uint64_t one = 0;
    auto& fake = *static_cast<FakeCompletionChannel*>(channel);
    if (read(channel->fd, &one, sizeof one) != sizeof one || fake.events.empty()) {
        return -1;
    }
    *cq = fake.events.front();
    *cq_context = (*cq)->cq_context;
    fake.events.pop_front();
    ++static_cast<FakeCq*>(*cq)->unacknowledged;
    return 0;
}

void ack_cq_events(ibv_cq* cq, unsigned events) {
    static_cast<FakeCq*>(cq)->unacknowledged -= static_cast<int>(events);
}

int req_notify_cq(ibv_cq* cq, int) {
    if (const int error = self().enter("req_notify_cq")) {
        return error;
    }
    if (cq->channel == nullptr) {
        self().complain("req_notify_cq: the queue has no channel");
    }
    static_cast<FakeCq*>(cq)->armed = true;
    return 0;
}

ibv_cq* create_cq(ibv_context* context, int depth, void* cq_context, ibv_comp_channel* channel,
                  int vector) {
    if (const int error = self().enter("create_cq")) {
        return refuse<ibv_cq>(error);
    }
    if (depth < 1 || depth > self().device_of(context).limits.max_cqe || vector != 0) {
        self().complain("create_cq: arguments");
    }
    auto& cq = self().cqs.emplace_back(std::make_unique<FakeCq>());
    cq->context = context;
    cq->cq_context = cq_context;
    cq->cqe = depth;
    cq->channel = channel;
    if (channel != nullptr) {
        ++static_cast<FakeCompletionChannel*>(channel)->users;
    }
    return cq.get();
}

int resize_cq(ibv_cq* cq, int depth) {
    if (const int error = self().enter("resize_cq")) {
        return error;
    }
    auto& fake = *static_cast<FakeCq*>(cq);
    if (!fake.alive || depth > self().device_of(cq->context).limits.max_cqe ||
        depth < static_cast<int>(fake.completions.size())) {
        self().complain("resize_cq: arguments");
    }
    if (!self().device_of(cq->context).resizes) {
        return EOPNOTSUPP;
    }
    cq->cqe = depth;
    return 0;
}

int destroy_cq(ibv_cq* cq) {
    auto& fake = *static_cast<FakeCq*>(cq);
    check_acknowledged("destroy_cq", fake);
    const int error = end_object("destroy_cq", fake, fake.users);
    if (error == 0 && cq->channel != nullptr) {
        --static_cast<FakeCompletionChannel*>(cq->channel)->users;
    }
    fake.alive = fake.alive && error != 0;
    return error;
}

int poll_cq(ibv_cq* cq, int count, ibv_wc* out) {
    if (const int error = self().enter("poll_cq")) {
        return -error;
    }
    auto& fake = *static_cast<FakeCq*>(cq);
    if (!fake.alive) {
        self().complain("poll_cq: destroyed");
    }
    int done = 0;
    for (; done < count && !fake.completions.empty(); ++done) {
        out[done] = fake.completions.front();
        fake.completions.pop_front();
    }
    return done;
}

ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* init) {
    if (const int error = self().enter("create_srq")) {
        return refuse<ibv_srq>(error);
    }
    const ibv_device_attr& limits = self().device_of(pd->context).limits;
    if (init->attr.max_wr < 1 || init->attr.max_wr > static_cast<unsigned>(limits.max_srq_wr) ||
        init->attr.max_sge < 1 || init->attr.max_sge > static_cast<unsigned>(limits.max_srq_sge)) {
        self().complain("create_srq: limits");
    }
    auto& srq = self().srqs.emplace_back(std::make_unique<FakeSrq>());
    srq->context = pd->context;
    srq->srq_context = init->srq_context;
    srq->pd = pd;
    srq->attributes = init->attr;
    ++static_cast<FakePd*>(pd)->users;
    return srq.get();
}

int modify_srq(ibv_srq* srq, ibv_srq_attr* attributes, int mask) {
    if (const int error = self().enter("modify_srq")) {
        return error;
    }
    auto& fake = *static_cast<FakeSrq*>(srq);
    if (mask != IBV_SRQ_LIMIT || attributes->srq_limit > fake.attributes.max_wr) {
        self().complain("modify_srq: arguments");
    }
    fake.attributes.srq_limit = attributes->srq_limit;
    return 0;
}

int destroy_srq(ibv_srq* srq) {
    auto& fake = *static_cast<FakeSrq*>(srq);
    check_acknowledged("destroy_srq", fake);
    if (const int error = end_object("destroy_srq", fake, fake.users)) {
        return error;
    }
    fake.alive = false;
    --static_cast<FakePd*>(srq->pd)->users;
    return 0;
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* work, ibv_recv_wr** bad) {
    *bad = work;
    if (const int error = self().enter("post_srq_recv")) {
        return error;
    }
    auto& fake = *static_cast<FakeSrq*>(srq);
    if (work->next != nullptr || work->num_sge > static_cast<int>(fake.attributes.max_sge)) {
        self().complain("post_srq_recv: arguments");
    }
    if (fake.posted == fake.attributes.max_wr) {
        return ENOMEM;
    }
    ++fake.posted;
    self().received.push_back({0, work->wr_id, {work->sg_list, work->sg_list + work->num_sge}});
    return 0;
}

// -------------------------------------------------------------------------------------------------
// Queue pairs

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* init) {
    if (const int error = self().enter("create_qp")) {
        return refuse<ibv_qp>(error);
    }
    const FakeDevice& device = self().device_of(pd->context);
    const auto most_work = static_cast<unsigned>(device.limits.max_qp_wr);
    const auto most_entries = static_cast<unsigned>(device.limits.max_sge);
    const ibv_qp_cap& cap = init->cap;
    const bool known =
        init->qp_type == IBV_QPT_RC ? device.rc : init->qp_type == IBV_QPT_UD && device.ud;
    if (!known) {
        return refuse<ibv_qp>(EOPNOTSUPP);
    }
    if (cap.max_send_wr > most_work || cap.max_recv_wr > most_work ||
        cap.max_send_sge > most_entries || cap.max_recv_sge > most_entries ||
        cap.max_inline_data > device.inline_bytes) {
        return refuse<ibv_qp>(EINVAL);
    }
    if (device.no_inline) {
        init->cap.max_inline_data = 0;
    }
    if (device.rounds_sends) {
        init->cap.max_send_wr = std::bit_ceil(cap.max_send_wr + 1) - 1;
    }
    return &enter_qp(pd, *init, init->qp_type);
}

int destroy_qp(ibv_qp* qp) {
    auto& fake = *static_cast<FakeQp*>(qp);
    check_acknowledged("destroy_qp", fake);
    if (const int error = end_object("destroy_qp", fake, 0)) {
        return error;
    }
    fake.alive = false;
    // libmlx5 drops the target's completions; other providers leave those that have arrived.
    if (fake.kind == kDcTarget) {
        std::erase_if(static_cast<FakeCq*>(qp->recv_cq)->completions,
                      [qp](const ibv_wc& wc) { return wc.qp_num == qp->qp_num; });
    }
    --static_cast<FakePd*>(qp->pd)->users;
    --static_cast<FakeCq*>(qp->send_cq)->users;
    --static_cast<FakeCq*>(qp->recv_cq)->users;
    if (qp->srq != nullptr) {
        --static_cast<FakeSrq*>(qp->srq)->users;
    }
    return 0;
}

// Required attributes: ibv_modify_qp(3). Optional ones: InfiniBand Architecture, vol. 1, tables 91
// to 95. DC: those that the driver mlx5_ib of Linux accepts, in the versions that accept least.
struct Move {
    ibv_qp_type type;
    ibv_qp_state from;
    ibv_qp_state to;
    int required;
    int optional;
};
constexpr int kInitiatorRts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_SQ_PSN;
constexpr int kRcRtsOptional = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH |
                               IBV_QP_PATH_MIG_STATE | IBV_QP_MIN_RNR_TIMER;
constexpr Move kMoves[] = {
    {IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT,
     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    {IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_INIT, 0,
     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
         IBV_QP_TIMEOUT,
     kRcRtsOptional},
    {IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_STATE | kRcRtsOptional},
    {IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT,
     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
    {IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_INIT, 0,
     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
    {IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_STATE, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPT_UD, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN,
     IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {kDcInitiator, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT, 0},
    {kDcInitiator, IBV_QPS_INIT, IBV_QPS_INIT, IBV_QP_STATE, IBV_QP_PKEY_INDEX | IBV_QP_PORT},
    {kDcInitiator, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_STATE | IBV_QP_PATH_MTU, IBV_QP_PKEY_INDEX},
    {kDcInitiator, IBV_QPS_RTR, IBV_QPS_RTS, kInitiatorRts, IBV_QP_MIN_RNR_TIMER},
    {kDcInitiator, IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_STATE, IBV_QP_MIN_RNR_TIMER},
    {kDcTarget, IBV_QPS_RESET, IBV_QPS_INIT,
     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    {kDcTarget, IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_AV | IBV_QP_PATH_MTU, 0},
};

// Adapters have no move from RESET to ERR; for a DC target they have no move to RESET or ERR.
bool move_is_legal(const FakeQp& qp, ibv_qp_state to, int mask) {
    if (qp.kind != kDcTarget &&
        (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && qp.state != IBV_QPS_RESET))) {
        return mask == IBV_QP_STATE;
    }
    for (const Move& move : kMoves) {
        if (move.type == qp.kind && move.from == qp.state && move.to == to) {
            return (mask & move.required) == move.required &&
                   (mask & ~(move.required | move.optional)) == 0;
        }
    }
    return false;
}

void check_values(const FakeQp& qp, const ibv_qp_attr& a, int mask) {
    const FakeDevice& device = self().device_of(qp.context);
    const auto has = [mask](int bit) { return (mask & bit) != 0; };
    const bool port = !has(IBV_QP_PORT) || (a.port_num >= 1 && a.port_num <= device.ports.size());
    const bool numbers = (!has(IBV_QP_RQ_PSN) || a.rq_psn < 1u << 24) &&
                         (!has(IBV_QP_SQ_PSN) || a.sq_psn < 1u << 24) &&
                         (!has(IBV_QP_DEST_QPN) || a.dest_qp_num < 1u << 24);
    const bool timers = (!has(IBV_QP_TIMEOUT) || a.timeout < 32) &&
                        (!has(IBV_QP_RETRY_CNT) || a.retry_cnt < 8) &&
                        (!has(IBV_QP_RNR_RETRY) || a.rnr_retry < 8) &&
                        (!has(IBV_QP_MIN_RNR_TIMER) || a.min_rnr_timer < 32);
    const bool reads =
        (!has(IBV_QP_MAX_QP_RD_ATOMIC) || a.max_rd_atomic <= device.limits.max_qp_init_rd_atom) &&
        (!has(IBV_QP_MAX_DEST_RD_ATOMIC) || a.max_dest_rd_atomic <= device.limits.max_qp_rd_atom);
    const bool key = !has(IBV_QP_QKEY) || a.qkey < 1u << 31; // larger keys are for privileged users
    if (!port || !numbers || !timers || !reads || !key) {
        self().complain("modify_qp: a value out of range");
    }
    if (has(IBV_QP_AV)) {
        check_vector("modify_qp", qp.context, a.ah_attr);
    }
    if (has(IBV_QP_ALT_PATH)) {
        check_vector("modify_qp (alternate)", qp.context, a.alt_ah_attr);
    }
}

int modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
    if (const int error = self().enter("modify_qp")) {
        return error;
    }
    auto& fake = *static_cast<FakeQp*>(qp);
    const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attributes->qp_state : fake.state;
    if (!fake.alive) {
        self().complain("modify_qp: destroyed");
    }
    self().modified.push_back({qp->qp_num, fake.state, mask, *attributes});
    if (!move_is_legal(fake, to, mask)) {
        return EINVAL;
    }
    if (fake.was_reset && to == IBV_QPS_INIT && !self().device_of(qp->context).reuses) {
        return EINVAL;
    }
    check_values(fake, *attributes, mask);
    if ((mask & IBV_QP_PATH_MIG_STATE) != 0) {
        fake.migration = attributes->path_mig_state;
    }
    if (fake.kind == kDcInitiator && (mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0 &&
        attributes->max_rd_atomic > self().device_of(qp->context).initiator_reads) {
        return EINVAL;
    }
    const bool stay = self().device_of(qp->context).receives_stay;
    if (to == IBV_QPS_RESET ? !stay : to == IBV_QPS_ERR && fake.state != IBV_QPS_ERR && stay) {
        fake.receives = 0;
    }
    fake.state = to;
    if (fake.kind == kDcTarget && to == IBV_QPS_RTR) {
        fake.qp_num = ++self().target_numbers;
    }
    if (to == IBV_QPS_RESET) {
        fake.was_reset = true;
        fake.sends.clear();
        fake.migration = IBV_MIG_MIGRATED;
    }
    return 0;
}

int query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int, ibv_qp_init_attr* init) {
    const auto& fake = *static_cast<FakeQp*>(qp);
    if (const int error = self().enter("query_qp")) {
        return error;
    }
    if (fake.kind == kDcTarget) {
        self().complain("query_qp: of a DC target, which is answered in RTR alone");
    }
    attributes->qp_state = fake.state;
    attributes->path_mig_state = fake.migration;
    *init = fake.init;
    return 0;
}

void check_request(const FakeQp& qp, const ibv_send_wr& work) {
    const bool datagram = qp.qp_type == IBV_QPT_UD;
    std::uint64_t bytes = 0;
    for (int i = 0; i < work.num_sge; ++i) {
        bytes += work.sg_list[i].length;
        if (work.sg_list[i].length == 0) {
            self().complain("post_send: an empty entry, which some adapters take for 2 GiB");
        }
    }
    if (work.next != nullptr || work.num_sge > static_cast<int>(qp.init.cap.max_send_sge) ||
        ((work.send_flags & IBV_SEND_INLINE) != 0 && bytes > qp.init.cap.max_inline_data) ||
        (datagram && work.opcode != IBV_WR_SEND && work.opcode != IBV_WR_SEND_WITH_IMM)) {
        self().complain("post_send: arguments");
    }
}

int post_send(ibv_qp* qp, ibv_send_wr* work, ibv_send_wr** bad) {
    *bad = work;
    if (const int error = self().enter("post_send")) {
        return error;
    }
    auto& fake = *static_cast<FakeQp*>(qp);
    if (fake.state != IBV_QPS_RTS && fake.state != IBV_QPS_ERR) {
        return EINVAL;
    }
    if (fake.sends.size() == fake.init.cap.max_send_wr) {
        return ENOMEM;
    }
    check_request(fake, *work);
    fake.sends.emplace_back(work->wr_id, fake.init.sq_sig_all != 0 ||
                                             (work->send_flags & IBV_SEND_SIGNALED) != 0);
    self().sent.push_back({qp->qp_num, *work, {work->sg_list, work->sg_list + work->num_sge}});
    return 0;
}

int post_recv(ibv_qp* qp, ibv_recv_wr* work, ibv_recv_wr** bad) {
    *bad = work;
    if (const int error = self().enter("post_recv")) {
        return error;
    }
    auto& fake = *static_cast<FakeQp*>(qp);
    if (fake.state == IBV_QPS_RESET || fake.srq != nullptr ||
        work->num_sge > static_cast<int>(fake.init.cap.max_recv_sge)) {
        self().complain("post_recv: arguments");
    }
    if (fake.receives == fake.init.cap.max_recv_wr) {
        return ENOMEM;
    }
    ++fake.receives;
    self().received.push_back(
        {qp->qp_num, work->wr_id, {work->sg_list, work->sg_list + work->num_sge}});
    return 0;
}

} // namespace

FakeQp& enter_qp(ibv_pd* pd, const ibv_qp_init_attr& init, ibv_qp_type kind) {
    auto& qp = self().qps.emplace_back(std::make_unique<FakeQp>());
    qp->context = pd->context;
    qp->qp_context = init.qp_context;
    qp->pd = pd;
    qp->send_cq = init.send_cq;
    qp->recv_cq = init.recv_cq;
    qp->srq = init.srq;
    qp->qp_num = kind == kDcTarget ? 0 : static_cast<std::uint32_t>(100 + self().qps.size());
    qp->state = IBV_QPS_RESET;
    qp->qp_type = init.qp_type;
    qp->kind = kind;
    qp->init = init;
    ++static_cast<FakePd*>(pd)->users;
    ++static_cast<FakeCq*>(init.send_cq)->users;
    ++static_cast<FakeCq*>(init.recv_cq)->users;
    if (init.srq != nullptr) {
        ++static_cast<FakeSrq*>(init.srq)->users;
    }
    return *qp;
}

void add_object_calls(verbs::Calls& calls) {
    calls.alloc_pd = alloc_pd;
    calls.dealloc_pd = dealloc_pd;
    calls.reg_mr = reg_mr;
    calls.reg_dmabuf_mr = reg_dmabuf_mr;
    calls.dereg_mr = dereg_mr;
    calls.create_ah = create_ah;
    calls.destroy_ah = destroy_ah;
    calls.create_comp_channel = create_comp_channel;
    calls.destroy_comp_channel = destroy_comp_channel;
    calls.get_cq_event = get_cq_event;
    calls.ack_cq_events = ack_cq_events;
    calls.req_notify_cq = req_notify_cq;
    calls.create_cq = create_cq;
    calls.resize_cq = resize_cq;
    calls.destroy_cq = destroy_cq;
    calls.poll_cq = poll_cq;
    calls.create_srq = create_srq;
    calls.modify_srq = modify_srq;
    calls.destroy_srq = destroy_srq;
    calls.post_srq_recv = post_srq_recv;
    calls.create_qp = create_qp;
    calls.modify_qp = modify_qp;
    calls.query_qp = query_qp;
    calls.destroy_qp = destroy_qp;
    calls.writes_in_order = [](ibv_qp* qp) {
        if (static_cast<FakeQp*>(qp)->kind == kDcTarget) {
            return qp->state == IBV_QPS_RTR ? self().targets_in_order : 0;
        }
        const bool tells = self().tells_order_early || self().writes_in_order < 0 ||
                           static_cast<FakeQp*>(qp)->state == IBV_QPS_RTS;
        return tells ? self().writes_in_order : 0;
    };
    calls.post_send = post_send;
    calls.post_recv = post_recv;
}

} // namespace adaptib::test
