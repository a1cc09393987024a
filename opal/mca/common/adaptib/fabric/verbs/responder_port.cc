// SPDX-License-Identifier: BSD-3-Clause
// Questions to one rail, and their answers (responder_port.h).
#include "fabric/verbs/responder_port.h"

#include <cerrno>
#include <utility>

#include "base/invariant.h"
#include "fabric/verbs/errors.h"
#include "fabric/verbs/qp.h"

namespace adaptib::verbs {

namespace {

constexpr std::uint64_t kAnswerTag = std::uint64_t{1} << 32; // in wr_id: an answer
// In wr_id: the life of the queue pair.
constexpr std::uint32_t kLifeShift = 33;
constexpr int kBatch = 16;
constexpr unsigned kAcknowledgeEvery = 64; // events; acknowledging takes a library lock

} // namespace

ResponderPort::ResponderPort(VerbsRail& rail, const Answerer& answerer, std::uint64_t access_key)
    : rail_(rail), calls_(rail.calls()), answerer_(answerer), queue_key_(queue_key(access_key)),
      openings_(rail.openings()), port_(rail.port()) {}

ResponderPort::~ResponderPort() {
    if (qp_ != nullptr) {
        calls_.destroy_qp(qp_);
    }
    if (cq_ != nullptr) {
        calls_.ack_cq_events(cq_, unacknowledged_);
        calls_.destroy_cq(cq_);
    }
    if (channel_ != nullptr) {
        calls_.destroy_comp_channel(channel_);
    }
}

void ResponderPort::set_port(const Port& port) {
    const std::lock_guard lock(port_lock_);
    ADAPTIB_INVARIANT(port.number == port_.number && !port.partitions.empty(),
                      "a port keeps its number and a partition", port.number, port_.number);
    moved_ = moved_ || port_.pkey_index() != port.pkey_index();
    port_ = port;
}

bool ResponderPort::has_moved() {
    const std::lock_guard lock(port_lock_);
    return std::exchange(moved_, false);
}

std::byte* ResponderPort::receive_at(std::uint32_t index) const {
    return static_cast<std::byte*>(memory_->address()) + index * kReceiveBytes;
}

std::byte* ResponderPort::answer_at(std::uint32_t index) const {
    return receive_at(kReceives) + index * kMostQuestion;
}

Status ResponderPort::open() {
    ADAPTIB_INVARIANT(memory_ == nullptr && channel_ == nullptr, "a port is opened once", channel_);
    Status status =
        rail_.allocate(kReceives * kReceiveBytes + kAnswers * kMostQuestion, kLocalWrite, memory_);
    if (!status.ok()) {
        return status;
    }
    errno = 0;
    channel_ = calls_.create_comp_channel(rail_.device().context());
    if (channel_ == nullptr) {
        return status_of(error_number(-1));
    }
    errno = 0;
    cq_ = calls_.create_cq(rail_.device().context(), static_cast<int>(kReceives + kAnswers),
                           nullptr, channel_, 0);
    if (cq_ == nullptr) {
        return status_of(error_number(-1));
    }
    return make_queue_pair();
}

Status ResponderPort::make_queue_pair() {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.qp_type = IBV_QPT_UD;
    init.sq_sig_all = 1;
    init.cap = {kAnswers, kReceives, 1, 1, 0};
    errno = 0;
    qp_ = calls_.create_qp(rail_.device().pd(), &init);
    if (qp_ == nullptr) {
        return status_of(error_number(-1));
    }
    number_ = qp_->qp_num;
    return start() ? kOk : Status::error(Reason::no_device);
}

// Moves from RESET to RTS and posts all receives.
bool ResponderPort::start() {
    ADAPTIB_INVARIANT(qp_ != nullptr, "a queue pair that starts is there", life_);
    ++life_;
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    {
        const std::lock_guard lock(port_lock_);
        attributes.pkey_index = port_.pkey_index();
        attributes.port_num = port_.number;
    }
    attributes.qkey = queue_key_;
    bool good = calls_.modify_qp(qp_, &attributes,
                                 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0;
    attributes.qp_state = IBV_QPS_RTR;
    good = good && calls_.modify_qp(qp_, &attributes, IBV_QP_STATE) == 0;
    attributes.qp_state = IBV_QPS_RTS;
    good = good && calls_.modify_qp(qp_, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0;
    free_count_ = 0;
    for (std::uint32_t i = 0; i < kAnswers; ++i) {
        free_answers_[free_count_++] = i;
    }
    handles_ = {};
    for (std::uint32_t i = 0; i < kReceives && good; ++i) {
        good = post_receive(i);
    }
    // Arming reports nothing that arrived before it: see on_event().
    return good && calls_.req_notify_cq(cq_, 0) == 0;
}

// Does not restart at once again, in case the device is gone.
void ResponderPort::restart() {
    const auto now = std::chrono::steady_clock::now();
    if (now < restart_at_) {
        return;
    }
    restart_at_ = now + kRestEvery;
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RESET;
    if (calls_.modify_qp(qp_, &attributes, IBV_QP_STATE) != 0) {
        return;
    }
    broken_ = !start() && !replace();
}

// Some devices take no queue pair into use again (irdma): then another one, with another number.
bool ResponderPort::replace() {
    ibv_qp* const old = qp_;
    if (make_queue_pair().ok()) {
        calls_.destroy_qp(old);
        return true;
    }
    if (qp_ != nullptr) {
        calls_.destroy_qp(qp_);
    }
    qp_ = old;
    number_ = old->qp_num;
    return false;
}

bool ResponderPort::post_receive(std::uint32_t index) {
    ibv_sge entry{reinterpret_cast<std::uintptr_t>(receive_at(index)), kReceiveBytes,
                  memory_->local_key()};
    ibv_recv_wr work{};
    work.wr_id = life_ << kLifeShift | index;
    work.sg_list = &entry;
    work.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    return calls_.post_recv(qp_, &work, &bad) == 0;
}

// Arms the queue before the last poll, so that no completion stays in it unreported.
std::size_t ResponderPort::on_event(std::size_t limit) {
    ibv_cq* of = nullptr;
    void* context = nullptr;
    while (calls_.get_cq_event(channel_, &of, &context) == 0) {
        if (++unacknowledged_ >= kAcknowledgeEvery) {
            calls_.ack_cq_events(cq_, unacknowledged_);
            unacknowledged_ = 0;
        }
    }
    ADAPTIB_INVARIANT(unacknowledged_ < kAcknowledgeEvery, "few events are not acknowledged",
                      unacknowledged_);
    std::size_t questions = 0;
    bool armed = false;
    pending_ = false;
    while (true) {
        std::array<ibv_wc, kBatch> batch;
        const int count = calls_.poll_cq(cq_, kBatch, batch.data());
        for (int i = 0; i < count; ++i) {
            const ibv_wc& completion = batch[static_cast<std::size_t>(i)];
            questions += (completion.wr_id & kAnswerTag) == 0 ? 1 : 0;
            take(completion);
        }
        if (questions >= limit) {
            pending_ = true;
            break;
        }
        if (count > 0) {
            continue;
        }
        if (armed || count < 0) {
            break;
        }
        broken_ = calls_.req_notify_cq(cq_, 0) != 0 || broken_;
        armed = true;
    }
    if (has_moved()) {
        broken_ = true;
        restart_at_ = {};
    }
    if (broken_) {
        restart();
    }
    return questions;
}

void ResponderPort::take(const ibv_wc& completion) {
    if (completion.wr_id >> kLifeShift != life_) {
        return; // its buffers are in use again
    }
    const bool good = completion.status == IBV_WC_SUCCESS;
    broken_ = broken_ || !good;
    if ((completion.wr_id & kAnswerTag) != 0) {
        const auto slot = static_cast<std::uint32_t>(completion.wr_id);
        handles_[slot].reset();
        free_answers_[free_count_++] = slot;
        return;
    }
    if (!good) {
        return;
    }
    const auto index = static_cast<std::uint32_t>(completion.wr_id);
    if (completion.byte_len > kGrhBytes && completion.byte_len <= kGrhBytes + kMostQuestion) {
        answer({receive_at(index) + kGrhBytes, completion.byte_len - kGrhBytes}, completion.src_qp);
    }
    broken_ = !post_receive(index) || broken_;
}

void ResponderPort::answer(std::span<const std::byte> question, std::uint32_t asker) {
    if (free_count_ == 0) {
        return;
    }
    const std::uint32_t slot = free_answers_[free_count_ - 1];
    const Answerer::Reply reply =
        answerer_.answer(rail_.index(), question, {answer_at(slot), kMostQuestion});
    ADAPTIB_INVARIANT(reply.length <= kMostQuestion, "a reply fits its buffer", reply.length);
    SharedAh handle = reply.length > 0 ? find_handle(reply) : nullptr;
    if (handle == nullptr) {
        return;
    }
    ibv_sge entry{reinterpret_cast<std::uintptr_t>(answer_at(slot)),
                  static_cast<std::uint32_t>(reply.length), memory_->local_key()};
    ibv_send_wr work{};
    work.wr_id = life_ << kLifeShift | kAnswerTag | slot;
    work.sg_list = &entry;
    work.num_sge = 1;
    work.opcode = IBV_WR_SEND;
    work.send_flags = IBV_SEND_SIGNALED;
    work.wr.ud.ah = handle->get();
    work.wr.ud.remote_qpn = asker;
    work.wr.ud.remote_qkey = queue_key(reply.access_key);
    ibv_send_wr* bad = nullptr;
    if (calls_.post_send(qp_, &work, &bad) != 0) {
        broken_ = true;
        return;
    }
    --free_count_;
    handles_[slot] = std::move(handle);
}

// Null: there is none, or none yet.
SharedAh ResponderPort::find_handle(const Answerer::Reply& reply) {
    WireAddress remote{};
    if (!decode_address(reply.to, remote)) {
        return nullptr;
    }
    ibv_ah_attr attributes{};
    {
        const std::lock_guard lock(port_lock_);
        fill_vector(port_, path_to(port_, reply.to, reply.path), remote, rail_.options(),
                    attributes);
    }
    SharedAh out;
    const bool ethernet = rail_.info().link_layer == LinkLayer::ethernet;
    static_cast<void>(rail_.device().handles().find(attributes, ethernet, out));
    return out;
}

} // namespace adaptib::verbs
