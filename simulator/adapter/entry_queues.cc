// SPDX-License-Identifier: BSD-3-Clause
// Entry points of libibverbs: domains, memory, completion queues and channels.
#include <pthread.h>
#include <sched.h>

#include <cerrno>
#include <cstdlib>

#include "capacities.h"
#include "engine.h"
#include "entry.h"

using namespace adaptib::hca;

namespace {

pthread_mutex_t acknowledged_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t acknowledged = PTHREAD_COND_INITIALIZER;

template <typename Result> Result* refuse(int error) {
    errno = error;
    return nullptr;
}

bool gone(const ibv_context* context) {
    return Engine::get()->gone(*of(const_cast<ibv_context*>(context)));
}

const DeviceDescription& description(const ibv_context* context) {
    return *of(const_cast<ibv_context*>(context))->device->description;
}

// Result of a call that some drivers make to the system, and others to the removed device itself.
int result_when_gone(const ibv_context* context) {
    return description(context).rule(Rule::gone_post) == 0 ? 0 : EIO;
}

// Result of a call that destroys something of a removed device (rdma-core, verbs_is_destroy_err).
int destroyed_with_device() {
    static const bool allowed = std::getenv("RDMAV_ALLOW_DISASSOC_DESTROY") != nullptr;
    return allowed || verbs_allow_disassociate_destroy ? 0 : EIO;
}

// Waits until the program has acknowledged all events that it took.
void await(const std::uint32_t& done, const unsigned& delivered) {
    pthread_mutex_lock(&acknowledged_lock);
    while (done != delivered) {
        pthread_cond_wait(&acknowledged, &acknowledged_lock);
    }
    pthread_mutex_unlock(&acknowledged_lock);
}

void count(std::uint32_t& done, unsigned events) {
    pthread_mutex_lock(&acknowledged_lock);
    done += events;
    pthread_cond_broadcast(&acknowledged);
    pthread_mutex_unlock(&acknowledged_lock);
}

struct Counters {
    std::uint32_t* done;
    unsigned* delivered;
};

// The counters of the queue that an event is about; none for a port or device.
Counters counters(const ibv_async_event& event) {
    switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
        return {&event.element.cq->async_events_completed, &of(event.element.cq)->async_delivered};
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        return {&event.element.qp->events_completed, &of(event.element.qp)->async_delivered};
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return {&event.element.srq->events_completed, &of(event.element.srq)->async_delivered};
    default: return {nullptr, nullptr};
    }
}

template <typename Object>
void forget_events(ibv_context* context, Object* object, std::uint32_t* done) {
    of(context)->events.forget([&](const ibv_async_event& event) {
        return counters(event).done == done && done != nullptr;
    });
    (void)object;
}

int poll(ibv_cq* cq, int limit, ibv_wc* wc) {
    CompletionQueue& queue = *of(cq);
    Engine& engine = *Engine::get();
    queue.resized = false;
    if (queue.count.load(std::memory_order_relaxed) == 0) {
        engine.progress_if_free();
        if (queue.count.load() == 0) {
            sched_yield(); // the peer may need this processor
            return 0;
        }
    }
    const std::lock_guard guard(engine.lock);
    int taken = 0;
    for (Completion completion; taken < limit && take(queue, completion); ++taken) {
        wc[taken] = completion.wc;
    }
    return taken;
}

int request_notice(ibv_cq* cq, int solicited_only) {
    const std::lock_guard guard(Engine::get()->lock);
    if (gone(cq->context)) {
        return result_when_gone(cq->context);
    }
    CompletionQueue& queue = *of(cq);
    queue.solicited_only = solicited_only != 0 && (!queue.armed || queue.solicited_only);
    queue.armed = true;
    return 0;
}

int next(ibv_cq_ex* cq) {
    CompletionQueue& queue = *of(cq);
    const std::lock_guard guard(Engine::get()->lock);
    if (!take(queue, queue.current)) {
        return ENOENT;
    }
    cq->status = queue.current.wc.status;
    cq->wr_id = queue.current.wc.wr_id;
    return 0;
}

int start(ibv_cq_ex* cq, ibv_poll_cq_attr* attributes) {
    if (attributes->comp_mask != 0) {
        return EINVAL;
    }
    if (of(cq)->count.load() == 0) {
        Engine::get()->progress_if_free();
    }
    return next(cq);
}

void add_read_calls(ibv_cq_ex& cq) {
    cq.start_poll = start;
    cq.next_poll = next;
    cq.end_poll = [](ibv_cq_ex*) {};
    cq.read_opcode = [](ibv_cq_ex* from) { return of(from)->current.wc.opcode; };
    cq.read_vendor_err = [](ibv_cq_ex* from) { return of(from)->current.wc.vendor_err; };
    cq.read_byte_len = [](ibv_cq_ex* from) { return of(from)->current.wc.byte_len; };
    cq.read_imm_data = [](ibv_cq_ex* from) { return of(from)->current.wc.imm_data; };
    cq.read_qp_num = [](ibv_cq_ex* from) { return of(from)->current.wc.qp_num; };
    cq.read_src_qp = [](ibv_cq_ex* from) { return of(from)->current.wc.src_qp; };
    cq.read_wc_flags = [](ibv_cq_ex* from) { return of(from)->current.wc.wc_flags; };
    cq.read_slid = [](ibv_cq_ex* from) { return std::uint32_t{of(from)->current.wc.slid}; };
    cq.read_sl = [](ibv_cq_ex* from) { return of(from)->current.wc.sl; };
    cq.read_dlid_path_bits = [](ibv_cq_ex* from) { return of(from)->current.wc.dlid_path_bits; };
    cq.read_completion_ts = [](ibv_cq_ex* from) { return of(from)->current.nanoseconds; };
    cq.read_completion_wallclock_ns = cq.read_completion_ts;
}

ibv_cq_ex* create_ex(ibv_context* context, ibv_cq_init_attr_ex* wanted) {
    constexpr std::uint64_t kKnown =
        IBV_CREATE_CQ_SUP_WC_FLAGS &
        ~(IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG | IBV_WC_EX_WITH_TM_INFO);
    if ((wanted->wc_flags & ~kKnown) != 0) {
        return refuse<ibv_cq_ex>(EOPNOTSUPP);
    }
    if (gone(context)) {
        return refuse<ibv_cq_ex>(EIO);
    }
    const int entries = fit_completions(description(context), wanted->cqe);
    if (entries == 0 ||
        wanted->comp_vector >= static_cast<std::uint32_t>(context->num_comp_vectors)) {
        return refuse<ibv_cq_ex>(EINVAL);
    }
    const std::lock_guard guard(Engine::get()->lock);
    if (const int error = Engine::get()->count(*of(context)->device, Object::cq); error != 0) {
        return refuse<ibv_cq_ex>(error);
    }
    auto* const queue = new CompletionQueue;
    ibv_cq_ex& cq = queue->ex;
    cq.context = context;
    cq.channel = wanted->channel;
    cq.cq_context = wanted->cq_context;
    cq.cqe = entries;
    pthread_mutex_init(&cq.mutex, nullptr);
    pthread_cond_init(&cq.cond, nullptr);
    add_read_calls(cq);
    if (cq.channel != nullptr) {
        ++cq.channel->refcnt;
    }
    return &cq;
}

// Returns those of the calls ibv_wr_* that queue pairs of a type have (entry_work.cc).
std::uint64_t work_calls(ibv_qp_type type) {
    constexpr std::uint64_t kDatagrams = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    constexpr std::uint64_t kReliable =
        kDatagrams | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
        IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
        IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    return type == IBV_QPT_UD ? kDatagrams : kReliable;
}

ibv_mr* register_memory(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                        unsigned access, MappedFile file = {}) {
    const bool remote = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
    if ((remote && (access & IBV_ACCESS_LOCAL_WRITE) == 0) ||
        (access & (IBV_ACCESS_ON_DEMAND | IBV_ACCESS_ZERO_BASED)) != 0) {
        return refuse<ibv_mr>(EINVAL);
    }
    if (gone(pd->context)) {
        return refuse<ibv_mr>(EIO);
    }
    Engine& engine = *Engine::get();
    const std::lock_guard guard(engine.lock);
    if (const int error = engine.count(*of(pd->context)->device, Object::mr); error != 0) {
        return refuse<ibv_mr>(error);
    }
    auto* const region = new MemoryRegion{.file = std::move(file)};
    region->mr.context = pd->context;
    region->mr.pd = pd;
    region->mr.addr = address;
    region->mr.length = length;
    region->iova = iova;
    region->access = static_cast<int>(access);
    region->mr.lkey = region->mr.rkey = region->mr.handle = engine.add(region);
    ++of(pd)->users;
    return &region->mr;
}

} // namespace

namespace adaptib::hca {

void add_queue_calls(verbs_context& verbs) {
    verbs.create_cq_ex = create_ex;
    verbs.context.ops.poll_cq = poll;
    verbs.context.ops.req_notify_cq = request_notice;
    verbs.context.ops.post_send = [](ibv_qp* qp, ibv_send_wr* list, ibv_send_wr** bad) {
        const std::lock_guard guard(Engine::get()->lock);
        if (gone(qp->context)) {
            *bad = list;
            return result_when_gone(qp->context);
        }
        int error = 0;
        for (; list != nullptr && error == 0; list = error == 0 ? list->next : list) {
            error = of(qp)->post_send(*list);
        }
        if (error != 0) {
            *bad = list;
        }
        of(qp)->pump();
        return error;
    };
    verbs.context.ops.post_recv = [](ibv_qp* qp, ibv_recv_wr* list, ibv_recv_wr** bad) {
        const std::lock_guard guard(Engine::get()->lock);
        if (gone(qp->context)) {
            *bad = list;
            return result_when_gone(qp->context);
        }
        for (; list != nullptr; list = list->next) {
            if (const int error = of(qp)->post_receive(*list); error != 0) {
                *bad = list;
                return error;
            }
        }
        return 0;
    };
    verbs.context.ops.post_srq_recv = [](ibv_srq* srq, ibv_recv_wr* list, ibv_recv_wr** bad) {
        const std::lock_guard guard(Engine::get()->lock);
        SharedReceiveQueue& queue = *of(srq);
        for (; list != nullptr; list = list->next) {
            const bool wide =
                list->num_sge < 0 || static_cast<unsigned>(list->num_sge) > queue.max_sge;
            if (wide || queue.work.size() >= queue.max_wr) {
                *bad = list;
                return wide ? EINVAL : ENOMEM;
            }
            queue.work.push_back({list->wr_id, {list->sg_list, list->sg_list + list->num_sge}});
        }
        return 0;
    };
    verbs.create_qp_ex = [](ibv_context* context, ibv_qp_init_attr_ex* wanted) -> ibv_qp* {
        constexpr std::uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        const bool calls = (wanted->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
        if ((wanted->comp_mask & ~kKnown) != 0 || (wanted->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 ||
            (calls && (description(context).rule(Rule::wr_api) == 0 ||
                       (wanted->send_ops_flags & ~work_calls(wanted->qp_type)) != 0))) {
            return refuse<ibv_qp>(EOPNOTSUPP);
        }
        return ibv_create_qp(wanted->pd, reinterpret_cast<ibv_qp_init_attr*>(wanted));
    };
}

void count_delivered(const ibv_async_event& event) {
    if (unsigned* const delivered = counters(event).delivered; delivered != nullptr) {
        ++*delivered;
    }
}

void acknowledge_event(const ibv_async_event& event) {
    if (std::uint32_t* const done = counters(event).done; done != nullptr) {
        count(*done, 1);
    }
}

} // namespace adaptib::hca

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) {
    if (gone(context)) {
        return refuse<ibv_pd>(EIO);
    }
    const std::lock_guard guard(Engine::get()->lock);
    if (const int error = Engine::get()->count(*of(context)->device, Object::pd); error != 0) {
        return refuse<ibv_pd>(error);
    }
    auto* const pd = new ProtectionDomain;
    pd->pd.context = context;
    return &pd->pd;
}

int ibv_dealloc_pd(ibv_pd* pd) {
    const std::lock_guard guard(Engine::get()->lock);
    if (gone(pd->context)) {
        return destroyed_with_device();
    }
    if (of(pd)->users != 0) {
        return EBUSY;
    }
    Engine::get()->discount(*of(pd->context)->device, Object::pd);
    delete of(pd);
    return 0;
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) {
    return register_memory(pd, address, length, reinterpret_cast<std::uintptr_t>(address),
                           static_cast<unsigned>(access));
}
ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                        int access) {
    return register_memory(pd, address, length, iova, static_cast<unsigned>(access));
}
ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                         unsigned access) {
    return register_memory(pd, address, length, iova, access);
}

// Any file that can be mapped stands for a DMA buffer.
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t iova,
                          int file, int access) {
    if (description(pd->context).rule(Rule::dmabuf) == 0) {
        return refuse<ibv_mr>(EOPNOTSUPP);
    }
    MappedFile mapped(file, offset, length);
    std::uint8_t* const address = mapped.address();
    return address == nullptr ? refuse<ibv_mr>(EINVAL)
                              : register_memory(pd, address, length, iova,
                                                static_cast<unsigned>(access), std::move(mapped));
}

// Buffers that rdma-core allocates, from 65 on; its header is not needed. The handle is the memory.
struct ibv_buf;
void* ibv_alloc_buf(ibv_pd*, std::size_t size, ibv_buf** buffer);
void ibv_free_buf(ibv_buf* buffer);
ibv_mr* ibv_reg_buf_mr(ibv_pd* pd, ibv_buf*, void* address, std::size_t length, int access);

void* ibv_alloc_buf(ibv_pd*, std::size_t size, ibv_buf** buffer) {
    constexpr std::size_t kPage = 4096;
    void* const memory = std::aligned_alloc(kPage, (size + kPage - 1) / kPage * kPage);
    if (memory == nullptr) {
        errno = ENOMEM;
        return nullptr;
    }
    *buffer = static_cast<ibv_buf*>(memory);
    return memory;
}
void ibv_free_buf(ibv_buf* buffer) { std::free(buffer); }
ibv_mr* ibv_reg_buf_mr(ibv_pd* pd, ibv_buf*, void* address, std::size_t length, int access) {
    return ibv_reg_mr(pd, address, length, access);
}

int ibv_dereg_mr(ibv_mr* mr) {
    Engine& engine = *Engine::get();
    const std::lock_guard guard(engine.lock);
    if (gone(mr->context)) {
        return destroyed_with_device();
    }
    engine.remove(of(mr));
    engine.discount(*of(mr->context)->device, Object::mr);
    --of(mr->pd)->users;
    delete of(mr);
    return 0;
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
    if (gone(context)) {
        return refuse<ibv_comp_channel>(EIO);
    }
    auto* const channel = new Channel;
    channel->channel.context = context;
    channel->channel.fd = channel->events.file();
    const std::lock_guard guard(Engine::get()->lock);
    of(context)->channels.insert(channel);
    return &channel->channel;
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
    const std::lock_guard guard(Engine::get()->lock);
    if (channel->refcnt != 0) {
        return EBUSY;
    }
    of(channel->context)->channels.erase(of(channel));
    delete of(channel);
    return 0;
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
    for (;;) {
        if (of(channel)->events.ended()) {
            errno = EIO;
            return -1;
        }
        if (!of(channel)->events.await()) {
            return -1;
        }
        const std::lock_guard guard(Engine::get()->lock);
        if (CompletionQueue* queue = nullptr; of(channel)->events.pop(queue)) {
            ++queue->delivered;
            *cq = public_cq(*queue);
            *cq_context = queue->ex.cq_context;
            return 0;
        }
    }
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned events) { count(cq->comp_events_completed, events); }

ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel,
                      int vector) {
    if (cqe <= 0 || vector < 0) {
        return refuse<ibv_cq>(EINVAL);
    }
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = static_cast<std::uint32_t>(cqe);
    wanted.comp_vector = static_cast<std::uint32_t>(vector);
    wanted.cq_context = cq_context;
    wanted.channel = channel;
    ibv_cq_ex* const cq = create_ex(context, &wanted);
    return cq == nullptr ? nullptr : ibv_cq_ex_to_cq(cq);
}

int ibv_resize_cq(ibv_cq* cq, int cqe) {
    const std::lock_guard guard(Engine::get()->lock);
    const DeviceDescription& device = description(cq->context);
    CompletionQueue& queue = *of(cq);
    const int entries = fit_completions(device, cqe);
    if (device.rule(Rule::resize_cq) == 0) {
        return EOPNOTSUPP;
    }
    if (gone(cq->context)) {
        return EIO;
    }
    if (queue.resized && device.rule(Rule::resize_busy) != 0) {
        return EBUSY;
    }
    if (entries == 0 || static_cast<std::size_t>(cqe) < queue.entries.size()) {
        return EINVAL;
    }
    cq->cqe = entries;
    queue.resized = true;
    return 0;
}

int ibv_destroy_cq(ibv_cq* cq) {
    CompletionQueue* const queue = of(cq);
    {
        const std::lock_guard guard(Engine::get()->lock);
        if (gone(cq->context)) {
            return destroyed_with_device();
        }
        if (queue->users != 0) {
            return EBUSY;
        }
        Engine::get()->discount(*of(cq->context)->device, Object::cq);
        forget_events(cq->context, queue, &cq->async_events_completed);
        if (cq->channel != nullptr) {
            of(cq->channel)->events.forget([&](CompletionQueue* of) { return of == queue; });
            --cq->channel->refcnt;
        }
    }
    await(cq->comp_events_completed, queue->delivered);
    await(cq->async_events_completed, queue->async_delivered);
    delete queue;
    return 0;
}

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* wanted) {
    const DeviceDescription& device = description(pd->context);
    if (device.rule(Rule::max_srq) == 0) {
        return refuse<ibv_srq>(EOPNOTSUPP);
    }
    if (gone(pd->context)) {
        return refuse<ibv_srq>(EIO);
    }
    if (wanted->attr.max_wr == 0 || wanted->attr.max_wr > device.rule(Rule::max_srq_wr) ||
        wanted->attr.max_sge > device.rule(Rule::max_srq_sge)) {
        return refuse<ibv_srq>(EINVAL);
    }
    const std::lock_guard guard(Engine::get()->lock);
    if (const int error = Engine::get()->count(*of(pd->context)->device, Object::srq); error != 0) {
        return refuse<ibv_srq>(error);
    }
    auto* const queue = new SharedReceiveQueue;
    queue->srq.context = pd->context;
    queue->srq.srq_context = wanted->srq_context;
    queue->srq.pd = pd;
    pthread_mutex_init(&queue->srq.mutex, nullptr);
    pthread_cond_init(&queue->srq.cond, nullptr);
    queue->max_wr = wanted->attr.max_wr;
    queue->max_sge = wanted->attr.max_sge;
    ++of(pd)->users;
    return &queue->srq;
}

int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* wanted, int mask) {
    const std::lock_guard guard(Engine::get()->lock);
    SharedReceiveQueue& queue = *of(srq);
    const std::int64_t most = description(srq->context).rule(Rule::max_srq_wr);
    if (gone(srq->context)) {
        return EIO;
    }
    if ((mask & IBV_SRQ_MAX_WR) != 0) {
        if (wanted->max_wr < queue.work.size() || wanted->max_wr > most) {
            return EINVAL;
        }
        queue.max_wr = wanted->max_wr;
    }
    if ((mask & IBV_SRQ_LIMIT) != 0) {
        if (wanted->srq_limit > queue.max_wr) {
            return EINVAL;
        }
        queue.limit = wanted->srq_limit;
    }
    return 0;
}

int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* result) {
    const std::lock_guard guard(Engine::get()->lock);
    *result = {of(srq)->max_wr, of(srq)->max_sge, of(srq)->limit};
    return gone(srq->context) ? EIO : 0;
}

int ibv_destroy_srq(ibv_srq* srq) {
    {
        const std::lock_guard guard(Engine::get()->lock);
        if (gone(srq->context)) {
            return destroyed_with_device();
        }
        if (of(srq)->users != 0) {
            return EBUSY;
        }
        forget_events(srq->context, srq, &srq->events_completed);
        --of(srq->pd)->users;
        Engine::get()->discount(*of(srq->context)->device, Object::srq);
    }
    await(srq->events_completed, of(srq)->async_delivered);
    delete of(srq);
    return 0;
}

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* wanted) {
    Engine& engine = *Engine::get();
    const std::lock_guard guard(engine.lock);
    const DeviceDescription& device = description(pd->context);
    if (gone(pd->context)) {
        return refuse<ibv_qp>(EIO);
    }
    const bool has = (wanted->qp_type == IBV_QPT_RC && device.rule(Rule::rc) != 0) ||
                     (wanted->qp_type == IBV_QPT_UD && device.rule(Rule::ud) != 0);
    if (!has) {
        return refuse<ibv_qp>(EOPNOTSUPP);
    }
    ibv_qp_cap capacities = wanted->cap;
    if (wanted->send_cq == nullptr || wanted->recv_cq == nullptr ||
        fit(device, wanted->qp_type, wanted->srq != nullptr, capacities) != 0) {
        return refuse<ibv_qp>(EINVAL);
    }
    if (const int error = engine.count(*of(pd->context)->device, Object::qp); error != 0) {
        return refuse<ibv_qp>(error);
    }
    wanted->cap = capacities;
    auto* const qp = new QueuePair(engine, pd, *wanted, engine.new_queue_pair_number());
    add_work_calls(qp->ex);
    ++of(pd)->users;
    ++of(wanted->send_cq)->users;
    ++of(wanted->recv_cq)->users;
    if (wanted->srq != nullptr) {
        ++of(wanted->srq)->users;
    }
    engine.add(qp);
    return qp->pointer();
}

int ibv_destroy_qp(ibv_qp* qp) {
    Engine& engine = *Engine::get();
    {
        const std::lock_guard guard(engine.lock);
        if (gone(qp->context)) {
            return destroyed_with_device();
        }
        engine.remove(of(qp));
        engine.discount(*of(qp->context)->device, Object::qp);
        forget_events(qp->context, qp, &qp->events_completed);
        --of(qp->pd)->users;
        --of(qp->send_cq)->users;
        --of(qp->recv_cq)->users;
        if (qp->srq != nullptr) {
            --of(qp->srq)->users;
        }
        // Its completions go with it.
        for (CompletionQueue* queue : {of(qp->send_cq), of(qp->recv_cq)}) {
            std::erase_if(queue->entries, [qp](const Completion& completion) {
                return completion.wc.qp_num == qp->qp_num;
            });
            queue->count.store(static_cast<unsigned>(queue->entries.size()));
        }
    }
    await(qp->events_completed, of(qp)->async_delivered);
    delete of(qp);
    return 0;
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* wanted, int mask) {
    if (gone(qp->context)) {
        return EIO;
    }
    EthernetPath ethernet;
    if ((mask & IBV_QP_AV) != 0) {
        const std::uint8_t port =
            (mask & IBV_QP_PORT) != 0 ? wanted->port_num : of(qp)->attributes.port_num;
        const int error = resolve(*of(qp->context)->device, port, wanted->ah_attr, ethernet);
        if (error != 0) {
            return error;
        }
        const std::uint32_t label = wanted->ah_attr.grh.flow_label;
        ethernet.udp_port =
            label != 0 ? udp_port_of(label) : udp_port_of(qp->qp_num, wanted->dest_qp_num);
    }
    const std::lock_guard guard(Engine::get()->lock);
    return of(qp)->modify(*wanted, mask, ethernet);
}

int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* result, int, ibv_qp_init_attr* init) {
    const std::lock_guard guard(Engine::get()->lock);
    of(qp)->query(*result, *init);
    return gone(qp->context) ? EIO : 0;
}

int ibv_query_qp_data_in_order(ibv_qp* qp, ibv_wr_opcode, std::uint32_t) {
    const DeviceDescription& device = description(qp->context);
    const auto told = static_cast<OrderTold>(device.rule(Rule::order_told));
    const ibv_qp_state ready = of(qp)->dynamic == Dynamic::target ? IBV_QPS_RTR : IBV_QPS_RTS;
    return device.data_in_order && told != OrderTold::never &&
                   (told == OrderTold::always || of(qp)->state() == ready)
               ? 1
               : 0;
}

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) { return &of(qp)->ex; }

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
    const DeviceDescription& device = description(pd->context);
    if (gone(pd->context)) {
        return refuse<ibv_ah>(EIO);
    }
    if (attributes->port_num == 0 || attributes->port_num > device.ports.size()) {
        return refuse<ibv_ah>(EINVAL);
    }
    const PortDescription& port = device.ports[attributes->port_num - 1U];
    if ((port.ethernet && !attributes->is_global) ||
        (attributes->is_global && attributes->grh.sgid_index >= port.gid_entries)) {
        return refuse<ibv_ah>(EINVAL);
    }
    if (attributes->is_global && attributes->grh.sgid_index >= port.gids.size()) {
        return refuse<ibv_ah>(ENODATA);
    }
    EthernetPath ethernet;
    if (const int error =
            resolve(*of(pd->context)->device, attributes->port_num, *attributes, ethernet);
        error != 0) {
        return refuse<ibv_ah>(error);
    }
    const std::uint32_t label = attributes->grh.flow_label;
    ethernet.udp_port =
        label != 0 ? udp_port_of(label) : udp_port_of_handle(*of(pd->context)->device);
    const std::lock_guard guard(Engine::get()->lock);
    if (const int error = Engine::get()->count(*of(pd->context)->device, Object::ah); error != 0) {
        return refuse<ibv_ah>(error);
    }
    auto* const handle = new AddressHandle;
    handle->ethernet = ethernet;
    handle->ah.context = pd->context;
    handle->ah.pd = pd;
    handle->attributes = *attributes;
    ++of(pd)->users;
    return &handle->ah;
}

int ibv_destroy_ah(ibv_ah* ah) {
    const std::lock_guard guard(Engine::get()->lock);
    if (gone(ah->context)) {
        return destroyed_with_device();
    }
    Engine::get()->discount(*of(ah->context)->device, Object::ah);
    --of(ah->pd)->users;
    delete of(ah);
    return 0;
}

} // extern "C"
