// SPDX-License-Identifier: BSD-3-Clause
// The stand-in: its devices, faults and accounts, and the calls about devices and events.
#include "unit/verbs/stand_in.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace adaptib::test {

namespace {

StandIn* g_current = nullptr;

struct ListedDevice : ibv_device {
    std::size_t index = 0;
};

template <typename T> int count_living(const std::vector<std::unique_ptr<T>>& objects) {
    return static_cast<int>(
        std::count_if(objects.begin(), objects.end(), [](const auto& o) { return o->alive; }));
}

void copy_text(char* to, std::size_t room, const std::string& text) {
    std::strncpy(to, text.c_str(), room - 1);
    to[room - 1] = 0;
}

FakePort* port_of(ibv_context* context, std::uint32_t number) {
    std::vector<FakePort>& ports = StandIn::current().device_of(context).ports;
    return number >= 1 && number <= ports.size() ? &ports[number - 1] : nullptr;
}

// -------------------------------------------------------------------------------------------------
// Calls

ibv_device** get_device_list(int* count) {
    StandIn& self = StandIn::current();
    if (const int error = self.enter("get_device_list")) {
        errno = error;
        return nullptr;
    }
    auto** list = new ibv_device*[self.devices.size() + 1]();
    for (std::size_t i = 0; i < self.devices.size(); ++i) {
        auto* device = new ListedDevice();
        device->index = i;
        device->node_type = self.devices[i].node_type;
        device->transport_type = self.devices[i].transport;
        copy_text(device->name, sizeof device->name, self.devices[i].name);
        copy_text(device->ibdev_path, sizeof device->ibdev_path, self.devices[i].sysfs);
        list[i] = device;
    }
    *count = static_cast<int>(self.devices.size());
    ++self.living_lists;
    return list;
}

void free_device_list(ibv_device** list) {
    for (ibv_device** each = list; *each != nullptr; ++each) {
        delete static_cast<ListedDevice*>(*each);
    }
    delete[] list;
    --StandIn::current().living_lists;
}

ibv_context* open_device(ibv_device* device) {
    StandIn& self = StandIn::current();
    if (const int error = self.enter("open_device")) {
        errno = error;
        return nullptr;
    }
    auto& context = self.contexts.emplace_back(std::make_unique<FakeContext>());
    context->device_index = static_cast<ListedDevice*>(device)->index;
    context->async_fd = -1;
    return context.get();
}

int close_device(ibv_context* context) {
    StandIn& self = StandIn::current();
    if (const int error = self.enter("close_device")) {
        errno = error;
        return -1;
    }
    auto& fake = *static_cast<FakeContext*>(context);
    if (!fake.alive) {
        self.complain("close_device: twice");
    }
    fake.alive = false;
    return 0;
}

int set_nonblocking(ibv_context* context) {
    const int error = StandIn::current().enter("set_nonblocking");
    static_cast<FakeContext*>(context)->nonblocking = error == 0;
    return error;
}

int query_device(ibv_context* context, ibv_device_attr* attributes) {
    const int error = StandIn::current().enter("query_device");
    if (error == 0) {
        FakeDevice& device = StandIn::current().device_of(context);
        *attributes = device.limits;
        attributes->phys_port_cnt = static_cast<std::uint8_t>(device.ports.size());
    }
    return error;
}

int query_port(ibv_context* context, std::uint8_t number, ibv_port_attr* attributes) {
    if (const int error = StandIn::current().enter("query_port")) {
        return error;
    }
    const FakePort* port = port_of(context, number);
    if (port == nullptr) {
        return EINVAL;
    }
    *attributes = port->attributes;
    attributes->gid_tbl_len = static_cast<int>(port->gids.size());
    attributes->pkey_tbl_len = static_cast<std::uint16_t>(port->pkeys.size());
    return 0;
}

int query_gid_ex(ibv_context* context, std::uint32_t number, std::uint32_t index,
                 ibv_gid_entry* entry, std::uint32_t) {
    if (const int error = StandIn::current().enter("query_gid_ex")) {
        return error;
    }
    const FakePort* port = port_of(context, number);
    if (port == nullptr || index >= port->gids.size()) {
        return EINVAL;
    }
    constexpr ibv_gid kNone{};
    if (std::memcmp(&port->gids[index].gid, &kNone, sizeof kNone) == 0) {
        return ENODATA;
    }
    *entry = port->gids[index];
    return 0;
}

int query_pkey(ibv_context* context, std::uint8_t number, int index, __be16* pkey) {
    const FakePort* port = port_of(context, number);
    const int error = StandIn::current().enter("query_pkey");
    if (error != 0 || port == nullptr || index >= static_cast<int>(port->pkeys.size())) {
        errno = error != 0 ? error : EINVAL;
        return -1;
    }
    *pkey = htons(port->pkeys[static_cast<std::size_t>(index)]);
    return 0;
}

// Adds `by` to the events of an object that have to be acknowledged before it may be destroyed.
void account(const ibv_async_event& event, int by) {
    switch (event.event_type) {
    case IBV_EVENT_CQ_ERR: static_cast<FakeCq*>(event.element.cq)->unacknowledged += by; break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        static_cast<FakeSrq*>(event.element.srq)->unacknowledged += by;
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
        static_cast<FakeQp*>(event.element.qp)->unacknowledged += by;
        break;
    default: break;
    }
}

int get_async_event(ibv_context* context, ibv_async_event* event) {
    auto& fake = *static_cast<FakeContext*>(context);
    if (!fake.nonblocking) {
        StandIn::current().complain("get_async_event would block");
    }
    const int error = StandIn::current().enter("get_async_event");
    if (error != 0 || fake.events.empty()) {
        errno = error != 0 ? error : EAGAIN;
        return -1;
    }
    *event = fake.events.front();
    fake.events.pop_front();
    account(*event, 1);
    return 0;
}

void ack_async_event(ibv_async_event* event) { account(*event, -1); }

int fork_init() { return StandIn::current().enter("fork_init"); }

ibv_fork_status is_fork_initialized() { return StandIn::current().fork; }

verbs::Calls make_calls() {
    verbs::Calls calls{};
    calls.fork_init = fork_init;
    calls.is_fork_initialized = is_fork_initialized;
    calls.get_device_list = get_device_list;
    calls.free_device_list = free_device_list;
    calls.get_device_name = [](ibv_device* device) -> const char* { return device->name; };
    calls.open_device = open_device;
    calls.close_device = close_device;
    calls.query_device = query_device;
    calls.query_port = query_port;
    calls.query_gid_ex = query_gid_ex;
    calls.query_pkey = query_pkey;
    calls.set_nonblocking = set_nonblocking;
    calls.get_async_event = get_async_event;
    calls.ack_async_event = ack_async_event;
    add_object_calls(calls);
    return calls;
}

const verbs::Calls& unlocked_calls() {
    static const verbs::Calls kCalls = make_calls();
    return kCalls;
}

ibv_device_attr usual_limits() {
    ibv_device_attr limits{};
    limits.max_qp = 1000;
    limits.max_qp_wr = 4096;
    limits.max_sge = 8;
    limits.max_sge_rd = 8;
    limits.max_cqe = 8191;
    limits.max_qp_rd_atom = 16;
    limits.max_qp_init_rd_atom = 8;
    limits.atomic_cap = IBV_ATOMIC_HCA;
    limits.max_srq = 10;
    limits.max_srq_wr = 2048;
    limits.max_srq_sge = 6;
    return limits;
}

FakePort usual_port(std::uint8_t link_layer) {
    FakePort port;
    port.attributes.state = IBV_PORT_ACTIVE;
    port.attributes.max_mtu = IBV_MTU_4096;
    port.attributes.active_mtu = IBV_MTU_2048;
    port.attributes.max_msg_sz = 1u << 30;
    port.attributes.active_width = 2;  // 4x
    port.attributes.active_speed = 32; // EDR
    port.attributes.link_layer = link_layer;
    return port;
}

} // namespace

// -------------------------------------------------------------------------------------------------

ibv_gid_entry gid(const char* text, ibv_gid_type type, std::uint32_t index) {
    ibv_gid_entry entry{};
    if (inet_pton(AF_INET6, text, entry.gid.raw) != 1) {
        throw std::runtime_error(std::string("not a GID: ") + text);
    }
    entry.gid_type = type;
    entry.gid_index = index;
    return entry;
}

FakeDevice roce_device(const std::string& name) {
    FakeDevice device;
    device.name = name;
    device.limits = usual_limits();
    device.limits.device_cap_flags =
        IBV_DEVICE_AUTO_PATH_MIG; // as soft-RoCE reports, though its ports have none
    FakePort port = usual_port(IBV_LINK_LAYER_ETHERNET);
    port.gids = {gid("fe80::2", IBV_GID_TYPE_ROCE_V1, 0), gid("fe80::2", IBV_GID_TYPE_ROCE_V2, 1),
                 gid("::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V1, 2),
                 gid("::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2, 3)};
    device.ports = {port};
    return device;
}

FakeDevice ib_device(const std::string& name, int ports, std::uint8_t lmc) {
    FakeDevice device;
    device.name = name;
    device.limits = usual_limits();
    device.limits.device_cap_flags = IBV_DEVICE_AUTO_PATH_MIG;
    for (int i = 1; i <= ports; ++i) {
        FakePort port = usual_port(IBV_LINK_LAYER_INFINIBAND);
        port.attributes.lid = static_cast<std::uint16_t>(16 * i);
        port.attributes.lmc = lmc;
        port.attributes.port_cap_flags = IBV_PORT_AUTO_MIGR_SUP;
        port.gids = {gid(("fe80::5:" + std::to_string(i)).c_str(), IBV_GID_TYPE_IB, 0)};
        device.ports.push_back(port);
    }
    return device;
}

StandIn::StandIn() { g_current = this; }
StandIn::~StandIn() { g_current = nullptr; }
StandIn& StandIn::current() { return *g_current; }

std::recursive_mutex& StandIn::lock() {
    static std::recursive_mutex mutex;
    return mutex;
}

// Makes each call atomic with respect to calls of other threads.
#define ADAPTIB_LOCKED(name)                                                                       \
    locked.name = [](auto... arguments) {                                                          \
        const std::lock_guard lock(StandIn::lock());                                               \
        return unlocked_calls().name(arguments...);                                                \
    }

const verbs::Calls& StandIn::calls() {
    static const verbs::Calls kCalls = [] {
        verbs::Calls locked = unlocked_calls();
        ADAPTIB_LOCKED(get_async_event);
        ADAPTIB_LOCKED(ack_async_event);
        ADAPTIB_LOCKED(reg_mr);
        ADAPTIB_LOCKED(reg_dmabuf_mr);
        ADAPTIB_LOCKED(dereg_mr);
        ADAPTIB_LOCKED(create_ah);
        ADAPTIB_LOCKED(destroy_ah);
        ADAPTIB_LOCKED(create_comp_channel);
        ADAPTIB_LOCKED(destroy_comp_channel);
        ADAPTIB_LOCKED(get_cq_event);
        ADAPTIB_LOCKED(ack_cq_events);
        ADAPTIB_LOCKED(req_notify_cq);
        ADAPTIB_LOCKED(create_cq);
        ADAPTIB_LOCKED(resize_cq);
        ADAPTIB_LOCKED(destroy_cq);
        ADAPTIB_LOCKED(poll_cq);
        ADAPTIB_LOCKED(create_qp);
        ADAPTIB_LOCKED(modify_qp);
        ADAPTIB_LOCKED(query_qp);
        ADAPTIB_LOCKED(destroy_qp);
        ADAPTIB_LOCKED(writes_in_order);
        ADAPTIB_LOCKED(post_send);
        ADAPTIB_LOCKED(post_recv);
        return locked;
    }();
    return kCalls;
}

FakeDevice& StandIn::device_of(ibv_context* context) {
    auto& fake = *static_cast<FakeContext*>(context);
    if (!fake.alive) {
        complain("a closed device is used");
    }
    return devices[fake.device_index];
}

FakeDevice& StandIn::listed(ibv_device* device) {
    return devices[static_cast<ListedDevice*>(device)->index];
}

int StandIn::enter(const char* call) {
    const int count = ++counts_[call];
    if (fail_call_ == call && count == fail_nth_) {
        failed_ = true;
        return fail_error_;
    }
    return 0;
}

void StandIn::fail(const std::string& call, int nth, int error) {
    fail_call_ = call;
    fail_nth_ = counts_[call] + nth;
    fail_error_ = error;
    failed_ = false;
}

int StandIn::count(const std::string& call) const {
    const auto found = counts_.find(call);
    return found == counts_.end() ? 0 : found->second;
}

int StandIn::living(const std::string& kind) const {
    return kind == "context"   ? count_living(contexts)
           : kind == "pd"      ? count_living(pds)
           : kind == "mr"      ? count_living(mrs)
           : kind == "ah"      ? count_living(ahs)
           : kind == "cq"      ? count_living(cqs)
           : kind == "channel" ? count_living(channels)
           : kind == "srq"     ? count_living(srqs)
           : kind == "qp"      ? count_living(qps)
                               : living_lists;
}

int StandIn::living() const {
    int sum = 0;
    for (const char* kind : {"context", "pd", "mr", "ah", "channel", "cq", "srq", "qp", "list"}) {
        sum += living(kind);
    }
    return sum;
}

FakeQp& StandIn::qp(std::uint32_t number) {
    for (auto& each : qps) {
        if (each->qp_num == number) {
            return *each;
        }
    }
    throw std::runtime_error("no such queue pair");
}

void StandIn::complete_send(std::uint32_t qp_number, ibv_wc completion) {
    FakeQp& fake = qp(qp_number);
    completion.qp_num = qp_number;
    // A completion covers the unsignaled requests before it.
    while (!fake.sends.empty()) {
        const bool it = fake.sends.front().first == completion.wr_id;
        fake.sends.pop_front();
        if (it) {
            break;
        }
    }
    add_completion(*static_cast<FakeCq*>(fake.send_cq), completion);
}

// A test adds completions while the fabric's thread takes them.
void StandIn::add_completion(FakeCq& queue, const ibv_wc& completion) {
    if (queue.completions.size() >= static_cast<std::size_t>(queue.cqe)) {
        complain("a completion queue overruns");
    }
    queue.completions.push_back(completion);
    if (std::exchange(queue.armed, false)) {
        auto& channel = *static_cast<FakeCompletionChannel*>(queue.channel);
        channel.events.push_back(&queue);
        const std::uint64_t one = 1;
        if (write(channel.fd, &one, sizeof one) != sizeof one) {
            complain("the channel's descriptor takes nothing");
        }
    }
}

void StandIn::complete_receive(std::uint32_t qp_number, ibv_wc completion) {
    FakeQp& fake = qp(qp_number);
    completion.qp_num = qp_number;
    fake.receives -= fake.receives > 0 ? 1 : 0;
    add_completion(*static_cast<FakeCq*>(fake.recv_cq), completion);
}

void StandIn::raise(std::size_t context, ibv_async_event event) {
    contexts[context]->events.push_back(event);
}

void StandIn::raise_port(std::size_t context, ibv_event_type type, int port) {
    ibv_async_event event{};
    event.event_type = type;
    event.element.port_num = port;
    raise(context, event);
}

void StandIn::raise_qp(ibv_event_type type, std::uint32_t qp_number) {
    ibv_async_event event{};
    event.event_type = type;
    event.element.qp = &qp(qp_number);
    static_cast<FakeContext*>(event.element.qp->context)->events.push_back(event);
}

} // namespace adaptib::test
