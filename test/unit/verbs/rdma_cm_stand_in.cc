// SPDX-License-Identifier: BSD-3-Clause
// The stand-in for librdmacm: rules of the calls, and what happens between two ids.
#include "unit/verbs/rdma_cm_stand_in.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace adaptib::test {

namespace {

constexpr std::size_t kRequestBytes = 56; // what InfiniBand leaves for private data
constexpr int kNobodyListens = 8;         // reason in a REJ
constexpr int kConsumer = 28;

RdmaCmStandIn* g_current = nullptr;

RdmaCmStandIn& self() { return RdmaCmStandIn::current(); }
void complain(const std::string& text) { StandIn::current().complain(text); }

int enter(const char* call) {
    const int error = StandIn::current().enter(call);
    errno = error;
    return error;
}

std::string ip_of(const sockaddr* address) {
    char text[INET6_ADDRSTRLEN] = "";
    const void* ip =
        address->sa_family == AF_INET
            ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr)
            : &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    inet_ntop(address->sa_family, ip, text, sizeof text);
    return text;
}

std::uint16_t port_of(const sockaddr* address) {
    return address->sa_family == AF_INET
               ? reinterpret_cast<const sockaddr_in*>(address)->sin_port
               : reinterpret_cast<const sockaddr_in6*>(address)->sin6_port;
}

// Complains unless the id is alive and in one of these states; false if it is in another state.
bool check(const char* call, rdma_cm_id* id, std::initializer_list<IdState> states) {
    auto& fake = *static_cast<FakeId*>(id);
    const bool right = std::find(states.begin(), states.end(), fake.state) != states.end();
    if (!fake.alive || !right) {
        complain(std::string(call) + (fake.alive ? ": in the wrong state" : ": destroyed"));
    }
    if (!right) {
        errno = EINVAL;
    }
    return right;
}

// -------------------------------------------------------------------------------------------------
// Channels and events

rdma_event_channel* create_event_channel() {
    if (enter("create_event_channel") != 0) {
        return nullptr;
    }
    return self().channels.emplace_back(std::make_unique<FakeChannel>()).get();
}

void destroy_event_channel(rdma_event_channel* channel) {
    auto& fake = *static_cast<FakeChannel*>(channel);
    if (!fake.alive) {
        complain("destroy_event_channel: twice");
    }
    for (const auto& id : self().ids) {
        if (id->alive && id->channel == channel) {
            complain("destroy_event_channel: it has ids");
        }
    }
    fake.alive = false;
}

int set_nonblocking(rdma_event_channel* channel) {
    const int error = enter("cm_set_nonblocking");
    static_cast<FakeChannel*>(channel)->nonblocking = error == 0;
    return error;
}

int get_event(rdma_event_channel* channel, rdma_cm_event** event) {
    auto& fake = *static_cast<FakeChannel*>(channel);
    if (!fake.nonblocking) {
        complain("get_cm_event would block");
    }
    if (enter("get_cm_event") != 0) {
        return -1;
    }
    if (fake.events.empty()) {
        errno = EAGAIN;
        return -1;
    }
    *event = fake.events.front().release();
    fake.events.pop_front();
    ++static_cast<FakeId*>((*event)->id)->unacknowledged;
    return 0;
}

int ack_event(rdma_cm_event* event) {
    const std::unique_ptr<rdma_cm_event> owned(event);
    --static_cast<FakeId*>(event->id)->unacknowledged;
    // Private data ends with the event.
    delete[] static_cast<const std::byte*>(event->param.conn.private_data);
    return 0;
}

// -------------------------------------------------------------------------------------------------
// Ids

int create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space space) {
    if (enter("create_id") != 0) {
        return -1;
    }
    if (space != RDMA_PS_TCP) {
        complain("create_id: not connected");
    }
    auto& made = *self().ids.emplace_back(std::make_unique<FakeId>());
    made.channel = channel;
    made.context = context;
    made.psn = static_cast<std::uint32_t>(0x1000 * self().ids.size());
    *id = &made;
    return 0;
}

int destroy_id(rdma_cm_id* id) {
    auto& fake = *static_cast<FakeId*>(id);
    if (!fake.alive) {
        complain("destroy_id: twice");
    }
    if (fake.unacknowledged != 0) {
        complain("destroy_id: would wait for an event to be acknowledged");
    }
    static_cast<void>(enter("destroy_id")); // the id ends in any case
    std::erase_if(static_cast<FakeChannel*>(fake.channel)->events, [&](const auto& event) {
        if (event->id != id) {
            return false;
        }
        delete[] static_cast<const std::byte*>(event->param.conn.private_data);
        return true;
    });
    std::erase_if(self().actions, [&](const auto& action) { return action.id == &fake; });
    if (fake.partner != nullptr) {
        fake.partner->partner = nullptr;
        if (fake.state == IdState::connected) {
            self().actions.push_back({fake.partner, RDMA_CM_EVENT_DISCONNECTED, {}});
        }
    }
    fake.partner = nullptr;
    fake.alive = false;
    return 0;
}

int bind_addr(rdma_cm_id* id, sockaddr* address) {
    if (enter("bind_addr") != 0 || !check("bind_addr", id, {IdState::idle})) {
        return -1;
    }
    auto& fake = *static_cast<FakeId*>(id);
    if (port_of(address) != 0) {
        complain("bind_addr: a port of one's own choice may be taken");
    }
    fake.ip = ip_of(address);
    if (self().find(fake.ip) == nullptr) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    fake.state = IdState::bound;
    fake.tcp_port = static_cast<std::uint16_t>(0x2000 + self().ids.size());
    self().attach(fake); // binding works for an address of no device, too
    return 0;
}

int listen(rdma_cm_id* id, int backlog) {
    if (enter("listen") != 0 || !check("listen", id, {IdState::bound})) {
        return -1;
    }
    if (backlog < 1) {
        complain("listen: backlog");
    }
    static_cast<FakeId*>(id)->state = IdState::listening;
    return 0;
}

std::uint16_t get_src_port(rdma_cm_id* id) { return static_cast<FakeId*>(id)->tcp_port; }

int resolve_addr(rdma_cm_id* id, sockaddr* from, sockaddr* to, int milliseconds) {
    self().log.push_back("resolve_addr");
    if (enter("resolve_addr") != 0 || !check("resolve_addr", id, {IdState::idle})) {
        return -1;
    }
    auto& fake = *static_cast<FakeId*>(id);
    if (milliseconds < 1 || from == nullptr || port_of(from) != 0 || port_of(to) == 0 ||
        from->sa_family != to->sa_family) {
        complain("resolve_addr: arguments");
    }
    fake.ip = ip_of(from);
    fake.to_ip = ip_of(to);
    fake.to_port = port_of(to);
    fake.state = IdState::address_asked;
    self().actions.push_back({&fake, RDMA_CM_EVENT_ADDR_RESOLVED, {}});
    return 0;
}

int resolve_route(rdma_cm_id* id, int milliseconds) {
    self().log.push_back("resolve_route");
    if (enter("resolve_route") != 0 || !check("resolve_route", id, {IdState::address_known})) {
        return -1;
    }
    if (milliseconds < 1) {
        complain("resolve_route: no time");
    }
    static_cast<FakeId*>(id)->state = IdState::route_asked;
    self().actions.push_back({static_cast<FakeId*>(id), RDMA_CM_EVENT_ROUTE_RESOLVED, {}});
    return 0;
}

// Checks the parameters that connect and accept get of a queue pair.
bool check_parameters(const char* call, const rdma_cm_id& id, const rdma_conn_param& p,
                      ibv_qp_state state) {
    const FakeQp& qp = StandIn::current().qp(p.qp_num);
    const ibv_device_attr& limits = StandIn::current().device_of(qp.context).limits;
    if (!qp.alive || qp.state != state) {
        complain(std::string(call) + ": the queue pair is in state " + std::to_string(qp.state));
    }
    if (p.retry_count > 7 || p.rnr_retry_count > 7 || p.srq != 0 || id.qp != nullptr) {
        complain(std::string(call) + ": parameters");
    }
    if (p.responder_resources > limits.max_qp_rd_atom ||
        p.initiator_depth > limits.max_qp_init_rd_atom) {
        errno = EINVAL;
        return false;
    }
    return true;
}

int connect(rdma_cm_id* id, rdma_conn_param* parameters) {
    self().log.push_back("connect");
    if (enter("connect") != 0 || !check("connect", id, {IdState::route_known}) ||
        !check_parameters("connect", *id, *parameters, IBV_QPS_INIT)) {
        return -1;
    }
    auto& fake = *static_cast<FakeId*>(id);
    if (parameters->private_data_len > kRequestBytes) {
        errno = EINVAL;
        return -1;
    }
    const auto* data = static_cast<const std::byte*>(parameters->private_data);
    fake.data.assign(data, data + parameters->private_data_len);
    fake.said = *parameters;
    fake.qp_number = parameters->qp_num;
    fake.state = IdState::connecting;
    self().actions.push_back({&fake, RDMA_CM_EVENT_CONNECT_REQUEST, {}});
    return 0;
}

int accept(rdma_cm_id* id, rdma_conn_param* parameters) {
    self().log.push_back("accept");
    if (enter("accept") != 0 || !check("accept", id, {IdState::requested}) ||
        !check_parameters("accept", *id, *parameters, IBV_QPS_RTS)) {
        return -1;
    }
    auto& fake = *static_cast<FakeId*>(id);
    if (parameters->responder_resources > fake.seen.responder_resources ||
        parameters->initiator_depth > fake.seen.initiator_depth) {
        complain("accept: more reads than were asked for");
    }
    fake.said = *parameters;
    fake.qp_number = parameters->qp_num;
    fake.state = IdState::accepted;
    if (fake.partner != nullptr) {
        self().actions.push_back({fake.partner, RDMA_CM_EVENT_CONNECT_RESPONSE, {}});
    }
    return 0;
}

int reject(rdma_cm_id* id, const void* data, std::uint8_t bytes) {
    self().log.push_back("reject");
    if (enter("reject") != 0 || !check("reject", id, {IdState::requested})) {
        return -1;
    }
    auto& fake = *static_cast<FakeId*>(id);
    const auto* from = static_cast<const std::byte*>(data);
    self().rejections.emplace_back(from, from + bytes);
    fake.state = IdState::over;
    if (fake.partner != nullptr) {
        self().actions.push_back({fake.partner, RDMA_CM_EVENT_REJECTED, {from, from + bytes}});
    }
    return 0;
}

int establish(rdma_cm_id* id) {
    self().log.push_back("establish");
    if (enter("establish") != 0 || !check("establish", id, {IdState::responded})) {
        return -1;
    }
    auto& fake = *static_cast<FakeId*>(id);
    if (StandIn::current().qp(fake.qp_number).state != IBV_QPS_RTS) {
        complain("establish: the queue pair is not ready");
    }
    fake.state = IdState::connected;
    if (fake.partner != nullptr) {
        self().actions.push_back({fake.partner, RDMA_CM_EVENT_ESTABLISHED, {}});
    }
    return 0;
}

int init_qp_attr(rdma_cm_id* id, ibv_qp_attr* out, int* mask) {
    if (enter("init_qp_attr") != 0 ||
        !check("init_qp_attr", id, {IdState::responded, IdState::requested})) {
        return -1;
    }
    const auto& fake = *static_cast<FakeId*>(id);
    const FakeId* other = fake.partner;
    const bool asked = fake.state == IdState::requested;
    switch (out->qp_state) {
    case IBV_QPS_INIT:
        out->pkey_index = 0;
        out->port_num = id->port_num;
        *mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
        break;
    case IBV_QPS_RTR:
        out->ah_attr.is_global = 1;
        out->ah_attr.port_num = id->port_num;
        out->ah_attr.dlid = 77;
        out->ah_attr.sl = 3;
        out->ah_attr.grh.hop_limit = 63;
        out->ah_attr.grh.flow_label = 0x54321;
        out->ah_attr.grh.traffic_class = self().traffic_class;
        out->path_mtu = IBV_MTU_1024;
        out->dest_qp_num = asked ? fake.seen.qp_num : other != nullptr ? other->qp_number : 0;
        out->rq_psn = fake.psn;
        out->max_dest_rd_atomic = asked              ? fake.seen.responder_resources
                                  : other != nullptr ? other->said.initiator_depth
                                                     : std::uint8_t{0};
        *mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        break;
    case IBV_QPS_RTS:
        out->sq_psn = other != nullptr ? other->psn : 0;
        out->max_rd_atomic = asked              ? fake.seen.initiator_depth
                             : other != nullptr ? other->said.responder_resources
                                                : std::uint8_t{0};
        *mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT |
                IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT;
        break;
    default: complain("init_qp_attr: no such state"); break;
    }
    return 0;
}

std::vector<sockaddr_storage> host_addresses() {
    std::vector<sockaddr_storage> out;
    for (const auto& each : self().addresses) {
        sockaddr_storage& made = out.emplace_back();
        made = {};
        auto& four = reinterpret_cast<sockaddr_in&>(made);
        auto& six = reinterpret_cast<sockaddr_in6&>(made);
        if (inet_pton(AF_INET, each.ip.c_str(), &four.sin_addr) == 1) {
            made.ss_family = AF_INET;
        } else {
            inet_pton(AF_INET6, each.ip.c_str(), &six.sin6_addr);
            made.ss_family = AF_INET6;
        }
    }
    return out;
}

} // namespace

// -------------------------------------------------------------------------------------------------

RdmaCmStandIn::RdmaCmStandIn() { g_current = this; }

RdmaCmStandIn::~RdmaCmStandIn() {
    for (const auto& channel : channels) {
        for (const auto& event : channel->events) {
            delete[] static_cast<const std::byte*>(event->param.conn.private_data);
        }
    }
    g_current = nullptr;
}

RdmaCmStandIn& RdmaCmStandIn::current() {
    if (g_current == nullptr) {
        throw std::runtime_error("no stand-in for librdmacm");
    }
    return *g_current;
}

const verbs::RdmaCmCalls& RdmaCmStandIn::calls() {
    static constexpr verbs::RdmaCmCalls kCalls{
        .create_event_channel = create_event_channel,
        .destroy_event_channel = destroy_event_channel,
        .set_nonblocking = set_nonblocking,
        .get_event = get_event,
        .ack_event = ack_event,
        .create_id = create_id,
        .destroy_id = destroy_id,
        .bind_addr = bind_addr,
        .listen = listen,
        .get_src_port = get_src_port,
        .resolve_addr = resolve_addr,
        .resolve_route = resolve_route,
        .connect = connect,
        .accept = accept,
        .reject = reject,
        .establish = establish,
        .init_qp_attr = init_qp_attr,
        .host_addresses = host_addresses,
    };
    return kCalls;
}

void RdmaCmStandIn::add_address(const std::string& ip, const char* device, int port) {
    addresses.push_back({ip, device == nullptr ? "" : device, port});
}

const RdmaCmStandIn::Address* RdmaCmStandIn::find(const std::string& ip) const {
    const auto found = std::find_if(addresses.begin(), addresses.end(),
                                    [&](const Address& each) { return each.ip == ip; });
    return found == addresses.end() ? nullptr : &*found;
}

void RdmaCmStandIn::attach(FakeId& id) {
    const Address* address = find(id.ip);
    if (address == nullptr || address->device.empty()) {
        return;
    }
    OwnDevice& own = *devices_.emplace_back(std::make_unique<OwnDevice>());
    std::strncpy(own.device.name, address->device.c_str(), sizeof own.device.name - 1);
    own.context.device = &own.device;
    id.verbs = &own.context;
    id.port_num = static_cast<std::uint8_t>(address->port);
}

void RdmaCmStandIn::raise(FakeId& id, rdma_cm_event_type type, int status, const void* data,
                          std::size_t bytes) {
    auto event = std::make_unique<rdma_cm_event>();
    *event = {};
    event->id = &id;
    event->event = type;
    event->status = status;
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        event->param.conn = id.seen;
    }
    event->param.conn.private_data = nullptr;
    if (bytes > 0) {
        auto* copy = new std::byte[bytes];
        std::memcpy(copy, data, bytes);
        event->param.conn.private_data = copy;
        event->param.conn.private_data_len = static_cast<std::uint8_t>(bytes);
    }
    static_cast<FakeChannel*>(id.channel)->events.push_back(std::move(event));
}

// Makes what the library makes: a new id with the listener's context.
FakeId& RdmaCmStandIn::request(FakeId& listener, std::uint32_t from_qp, const void* data,
                               std::size_t bytes) {
    FakeId& made = *ids.emplace_back(std::make_unique<FakeId>());
    made.channel = listener.channel;
    made.context = listener.context;
    made.verbs = listener.verbs;
    made.port_num = listener.port_num;
    made.state = IdState::requested;
    made.psn = static_cast<std::uint32_t>(0x1000 * ids.size());
    made.seen.qp_num = from_qp;
    made.seen.responder_resources = made.seen.initiator_depth = 8;
    std::vector<std::byte> padded(kRequestBytes); // this many bytes always arrive
    std::memcpy(padded.data(), data, std::min(bytes, padded.size()));
    raise(made, RDMA_CM_EVENT_CONNECT_REQUEST, 0, padded.data(), padded.size());
    return made;
}

void RdmaCmStandIn::deliver_request(FakeId& from) {
    const auto found = std::find_if(ids.begin(), ids.end(), [&](const auto& id) {
        return id->alive && id->state == IdState::listening && id->ip == from.to_ip &&
               id->tcp_port == from.to_port;
    });
    if (found == ids.end()) {
        from.state = IdState::over;
        raise(from, RDMA_CM_EVENT_REJECTED, kNobodyListens);
        return;
    }
    FakeId& listener = **found;
    FakeId& made = request(listener, from.qp_number, from.data.data(), from.data.size());
    made.partner = &from;
    from.partner = &made;
    auto& event = *static_cast<FakeChannel*>(made.channel)->events.back();
    made.seen.responder_resources = from.said.initiator_depth;
    made.seen.initiator_depth = from.said.responder_resources;
    event.param.conn.responder_resources = made.seen.responder_resources;
    event.param.conn.initiator_depth = made.seen.initiator_depth;
}

bool RdmaCmStandIn::step() {
    if (actions.empty()) {
        return false;
    }
    const Action action = actions.front();
    actions.pop_front();
    FakeId& id = *action.id;
    if (instead && instead->event == action.type) {
        id.state = IdState::over;
        raise(id, instead->other, instead->status);
        instead.reset();
        return true;
    }
    switch (action.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        attach(id);
        id.state = IdState::address_known;
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED: id.state = IdState::route_known; break;
    case RDMA_CM_EVENT_CONNECT_REQUEST: deliver_request(id); return true;
    case RDMA_CM_EVENT_CONNECT_RESPONSE: id.state = IdState::responded; break;
    case RDMA_CM_EVENT_ESTABLISHED: id.state = IdState::connected; break;
    default: id.state = IdState::over; break;
    }
    const bool rejected = action.type == RDMA_CM_EVENT_REJECTED;
    raise(id, action.type, rejected ? kConsumer : 0, action.data.data(), action.data.size());
    return true;
}

int RdmaCmStandIn::living() const {
    const auto alive = [](const auto& each) { return each->alive; };
    return static_cast<int>(std::count_if(ids.begin(), ids.end(), alive) +
                            std::count_if(channels.begin(), channels.end(), alive));
}

FakeId& RdmaCmStandIn::listener(std::size_t index) {
    for (const auto& id : ids) {
        if (id->alive && id->state == IdState::listening && index-- == 0) {
            return *id;
        }
    }
    throw std::runtime_error("no such listener");
}

std::vector<FakeId*> RdmaCmStandIn::active() const {
    std::vector<FakeId*> out;
    for (const auto& id : ids) {
        if (id->alive && id->state != IdState::listening) {
            out.push_back(id.get());
        }
    }
    return out;
}

} // namespace adaptib::test
