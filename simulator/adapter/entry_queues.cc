// SPDX-License-Identifier: BSD-3-Clause
// Entry points of libibverbs: domains, memory, completion queues and channels.
#include <pthread.h>
#include <sched.h>

#include <cerrno>
#include <cstdlib>

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
    const int limit = of(context)->device->description->max_cqe;
    if (wanted->cqe == 0 || wanted->cqe > static_cast<std::uint32_t>(limit)) {
        return refuse<ibv_cq_ex>(EINVAL);
    }
    auto* const queue = new CompletionQueue;
    ibv_cq_ex& cq = queue->ex;
    cq.context = context;
    cq.channel = wanted->channel;
    cq.cq_context = wanted->cq_context;
    cq.cqe = static_cast<int>(wanted->cqe);
    pthread_mutex_init(&cq.mutex, nullptr);
    pthread_cond_init(&cq.cond, nullptr);
    add_read_calls(cq);
    if (cq.channel != nullptr) {
        const std::lock_guard guard(Engine::get()->lock);
        ++cq.channel->refcnt;
    }
    return &cq;
}

ibv_mr* register_memory(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                        unsigned access, MappedFile file = {}) {
    const bool remote = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
    if ((remote && (access & IBV_ACCESS_LOCAL_WRITE) == 0) ||
        (access & (IBV_ACCESS_ON_DEMAND | IBV_ACCESS_ZERO_BASED)) != 0) {
        return refuse<ibv_mr>(EINVAL);
    }
    Engine& engine = *Engine::get();
    const std::lock_guard guard(engine.lock);
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
    verbs.create_qp_ex = [](ibv_context*, ibv_qp_init_attr_ex* wanted) -> ibv_qp* {
        constexpr std::uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        if ((wanted->comp_mask & ~kKnown) != 0 || (wanted->comp_mask & IBV_QP_INIT_ATTR_PD) == 0) {
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
    auto* const pd = new ProtectionDomain;
    pd->pd.context = context;
    return &pd->pd;
}

int ibv_dealloc_pd(ibv_pd* pd) {
    const std::lock_guard guard(Engine::get()->lock);
    if (of(pd)->users != 0) {
        return EBUSY;
    }
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
    engine.remove(of(mr));
    --of(mr->pd)->users;
    delete of(mr);
    return 0;
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
    auto* const channel = new Channel;
    channel->channel.context = context;
    channel->channel.fd = channel->events.file();
    return &channel->channel;
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
    const std::lock_guard guard(Engine::get()->lock);
    if (channel->refcnt != 0) {
        return EBUSY;
    }
    delete of(channel);
    return 0;
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
    for (;;) {
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
    if (cqe <= 0 || vector < 0 || vector >= context->num_comp_vectors) {
        return refuse<ibv_cq>(EINVAL);
    }
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = static_cast<std::uint32_t>(cqe);
    wanted.cq_context = cq_context;
    wanted.channel = channel;
    ibv_cq_ex* const cq = create_ex(context, &wanted);
    return cq == nullptr ? nullptr : ibv_cq_ex_to_cq(cq);
}

int ibv_resize_cq(ibv_cq* cq, int cqe) {
    const std::lock_guard guard(Engine::get()->lock);
    if (cqe <= 0 || cqe > of(cq->context)->device->description->max_cqe ||
        static_cast<std::size_t>(cqe) < of(cq)->entries.size()) {
        return EINVAL;
    }
    cq->cqe = cqe;
    return 0;
}

int ibv_destroy_cq(ibv_cq* cq) {
    CompletionQueue* const queue = of(cq);
    {
        const std::lock_guard guard(Engine::get()->lock);
        if (queue->users != 0) {
            return EBUSY;
        }
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
    const DeviceDescription& device = *of(pd->context)->device->description;
    if (device.max_srq == 0) {
        return refuse<ibv_srq>(EOPNOTSUPP);
    }
    if (wanted->attr.max_wr == 0 || wanted->attr.max_wr > static_cast<unsigned>(device.max_qp_wr) ||
        wanted->attr.max_sge > static_cast<unsigned>(device.max_sge)) {
        return refuse<ibv_srq>(EINVAL);
    }
    const std::lock_guard guard(Engine::get()->lock);
    unsigned& count = of(pd->context)->device->shared_receive_queues;
    if (count >= static_cast<unsigned>(device.max_srq)) {
        return refuse<ibv_srq>(ENOMEM);
    }
    ++count;
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
    const auto most = static_cast<unsigned>(of(srq->context)->device->description->max_qp_wr);
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
    return 0;
}

int ibv_destroy_srq(ibv_srq* srq) {
    {
        const std::lock_guard guard(Engine::get()->lock);
        if (of(srq)->users != 0) {
            return EBUSY;
        }
        forget_events(srq->context, srq, &srq->events_completed);
        --of(srq->pd)->users;
        --of(srq->context)->device->shared_receive_queues;
    }
    await(srq->events_completed, of(srq)->async_delivered);
    delete of(srq);
    return 0;
}

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* wanted) {
    Engine& engine = *Engine::get();
    const std::lock_guard guard(engine.lock);
    const DeviceDescription& device = *of(pd->context)->device->description;
    const auto most_sge = static_cast<unsigned>(device.max_sge);
    const auto most_wr = static_cast<unsigned>(device.max_qp_wr);
    const ibv_qp_cap& cap = wanted->cap;
    if (wanted->qp_type != IBV_QPT_RC && wanted->qp_type != IBV_QPT_UD) {
        return refuse<ibv_qp>(EOPNOTSUPP);
    }
    if (cap.max_send_wr > most_wr || cap.max_recv_wr > most_wr || cap.max_send_sge > most_sge ||
        cap.max_recv_sge > most_sge || cap.max_inline_data > device.max_inline ||
        wanted->send_cq == nullptr || wanted->recv_cq == nullptr) {
        return refuse<ibv_qp>(EINVAL);
    }
    unsigned& count = of(pd->context)->device->queue_pairs;
    if (count >= static_cast<unsigned>(device.max_qp)) {
        return refuse<ibv_qp>(ENOMEM);
    }
    ++count;
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
        engine.remove(of(qp));
        --of(qp->context)->device->queue_pairs;
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
    EthernetPath ethernet;
    if ((mask & IBV_QP_AV) != 0) {
        const std::uint8_t port =
            (mask & IBV_QP_PORT) != 0 ? wanted->port_num : of(qp)->attributes.port_num;
        const int error = resolve(*of(qp->context)->device, port, wanted->ah_attr, ethernet);
        if (error != 0) {
            return error;
        }
    }
    const std::lock_guard guard(Engine::get()->lock);
    return of(qp)->modify(*wanted, mask, ethernet);
}

int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* result, int, ibv_qp_init_attr* init) {
    const std::lock_guard guard(Engine::get()->lock);
    of(qp)->query(*result, *init);
    return 0;
}

int ibv_query_qp_data_in_order(ibv_qp* qp, ibv_wr_opcode, std::uint32_t) {
    return of(qp->context)->device->description->data_in_order ? 1 : 0;
}

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) { return &of(qp)->ex; }

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
    const DeviceDescription& device = *of(pd->context)->device->description;
    if (attributes->port_num == 0 || attributes->port_num > device.ports.size()) {
        return refuse<ibv_ah>(EINVAL);
    }
    const PortDescription& port = device.ports[attributes->port_num - 1U];
    if ((port.ethernet && !attributes->is_global) ||
        (attributes->is_global && attributes->grh.sgid_index >= port.gids.size())) {
        return refuse<ibv_ah>(EINVAL);
    }
    EthernetPath ethernet;
    if (const int error =
            resolve(*of(pd->context)->device, attributes->port_num, *attributes, ethernet);
        error != 0) {
        return refuse<ibv_ah>(error);
    }
    auto* const handle = new AddressHandle;
    handle->ethernet = ethernet;
    handle->ah.context = pd->context;
    handle->ah.pd = pd;
    handle->attributes = *attributes;
    const std::lock_guard guard(Engine::get()->lock);
    ++of(pd)->users;
    return &handle->ah;
}

int ibv_destroy_ah(ibv_ah* ah) {
    const std::lock_guard guard(Engine::get()->lock);
    --of(ah->pd)->users;
    delete of(ah);
    return 0;
}

} // extern "C"
