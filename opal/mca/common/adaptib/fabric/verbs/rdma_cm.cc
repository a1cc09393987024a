// SPDX-License-Identifier: BSD-3-Clause
// Connections by rdma_cm.
//
// Queue pairs stay the fabric's: librdmacm learns only their numbers, returns the attributes that
// it has found (rdma_init_qp_attr), and the fabric moves the queue pairs. All events of a rail come
// through one event channel, which is read when the fabric is asked for events, and never waited
// for.
//
//     active end (CmConnectParams::initiates)                 passive end
//     create_id, resolve_addr
//     ADDR_RESOLVED: resolve_route
//     ROUTE_RESOLVED: connect                 -->    CONNECT_REQUEST, for a waiting queue pair:
//                                                    RTR, RTS, accept
//     CONNECT_RESPONSE: RTR, RTS, establish   <--
//     event met                               -->    ESTABLISHED
//
// A queue pair has at most one id. A try may fail at any point; then its id is destroyed, and with
// it everything that the kernel still does for the try. Tries are numbered: the passive end follows
// a later try, and resets its queue pair for it, but never an earlier one. A request from the
// network is recognized by the token that both ends have agreed on, and rejected otherwise.
//
// An event is copied and acknowledged before it is handled, because destroying an id waits for
// that.
// rdma_resolve_route asks the daemon ibacm, if one runs on this host, and waits for its answer.
#include "adaptib_config.h"
#include "base/invariant.h"
#include "fabric/verbs/cm_service.h"

#if ADAPTIB_HAVE_RDMACM

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "fabric/verbs/errors.h"
#include "fabric/verbs/qp.h"
#include "fabric/verbs/rail.h"
#include "fabric/verbs/rdma_cm_calls.h"

namespace adaptib::verbs {

namespace {

constexpr int kResolveMilliseconds = 1000;
constexpr int kMostAtOnce = 64; // events that are not reported to the caller
constexpr int kBacklog = 1024;
constexpr std::uint32_t kMagic = 0xad1b7ec0;

// Private data of a request. InfiniBand leaves 56 bytes for it.
struct Introduction {
    std::uint32_t magic;
    std::uint32_t try_number;
    std::uint32_t target_qp;
    std::uint32_t zero;
    std::array<std::byte, sizeof(CmConnectParams::token)> token;
};
static_assert(sizeof(Introduction) == 48);

enum class Rejection : std::uint8_t { unknown = 1, failed = 2 };

struct CmEvent {
    rdma_cm_id* id;
    rdma_cm_event_type type;
    int status;
    rdma_conn_param parameters;
    std::array<std::byte, sizeof(Introduction)> data;
    std::size_t data_bytes;
};

bool is_ip_of(const sockaddr_storage& address, const ibv_gid& gid) {
    if (address.ss_family == AF_INET) {
        return is_ipv4(gid.raw) &&
               std::memcmp(&reinterpret_cast<const sockaddr_in&>(address).sin_addr, gid.raw + 12,
                           4) == 0;
    }
    return std::memcmp(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, gid.raw, 16) == 0;
}

void set_port(sockaddr_storage& address, std::uint16_t port) {
    if (address.ss_family == AF_INET) {
        reinterpret_cast<sockaddr_in&>(address).sin_port = port;
    } else {
        reinterpret_cast<sockaddr_in6&>(address).sin6_port = port;
    }
}

std::string ip_text(const sockaddr_storage& address) {
    char text[INET6_ADDRSTRLEN] = "?";
    const void* ip =
        address.ss_family == AF_INET
            ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr)
            : &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    inet_ntop(address.ss_family, ip, text, sizeof text);
    return text;
}

// InfiniBand Architecture, vol. 1, 12.6.7.2: reasons of REJ.
std::string rejection_text(const CmEvent& event) {
    constexpr int kStale = 10;
    constexpr int kNobodyListens = 8;
    constexpr int kConsumer = 28;
    switch (event.status) {
    case kNobodyListens: return "no process listens there any more";
    case kStale: return "the other side still knows an earlier connection of these queue pairs";
    case kConsumer:
        if (event.data_bytes > 0 && event.data[0] == static_cast<std::byte>(Rejection::failed)) {
            return "the other side could not set up its queue pair";
        }
        return "the other side does not expect this connection";
    default: return "rejected, reason " + std::to_string(event.status);
    }
}

std::string failure_text(const CmEvent& event) {
    const std::string why =
        event.status == 0 ? "" : std::string(": ") + std::strerror(std::abs(event.status));
    switch (event.type) {
    case RDMA_CM_EVENT_ADDR_ERROR: return "the address cannot be resolved" + why;
    case RDMA_CM_EVENT_ROUTE_ERROR: return "no route is found" + why;
    case RDMA_CM_EVENT_UNREACHABLE: return "the other side does not answer" + why;
    case RDMA_CM_EVENT_REJECTED: return rejection_text(event);
    case RDMA_CM_EVENT_DEVICE_REMOVAL: return "the device is being removed";
    case RDMA_CM_EVENT_DISCONNECTED: return "the other side has disconnected";
    default: return "the connection could not be made" + why;
    }
}

class RdmaCm final : public CmService {
public:
    RdmaCm(VerbsRail& rail, const RdmaCmCalls& calls) : rail_(rail), calls_(calls) {}
    ~RdmaCm() override;
    Status open(std::string& error_text);

    const WireCmAddress& address() const override { return address_; }
    void cm_connect(VerbsQueuePair& qp, const CmConnectParams& params) override;
    void forget(const VerbsQueuePair& qp) override;
    void progress(std::deque<Event>& out) override;

private:
    // A queue pair that connects, or has connected.
    struct Encounter {
        VerbsQueuePair* qp = nullptr;
        CmConnectParams params;
        rdma_cm_id* id = nullptr; // its context is this record; null: none, or not yet
        std::uint32_t tries = 0;  // tries begun
        bool cm_connected = false;
    };

    Status bind(std::string& error_text);
    bool bound_here(const rdma_cm_id& id) const;
    bool read(CmEvent& out);
    void handle(const CmEvent& event);
    void handle_listener(const CmEvent& event);
    void on_request(const CmEvent& event);
    Encounter* whom(const CmEvent& request);
    bool answer(Encounter& encounter, const CmEvent& request);
    void begin(Encounter& encounter);
    void connect(Encounter& encounter);
    void complete(Encounter& encounter);
    bool rise(Encounter& encounter);
    rdma_conn_param parameters_of(const Encounter& encounter) const;
    sockaddr_storage address_of(const WireCmAddress& at) const;
    void failed(Encounter& encounter, const std::string& why);
    void call_failed(Encounter& encounter, const char* call);
    void reject(rdma_cm_id* id, Rejection why);
    void drop_id(Encounter& encounter);
    void destroy_parked();
    void forget_notices(const VerbsQueuePair& qp);
    void report(EventKind kind, const Encounter& encounter, const std::string& why);

    VerbsRail& rail_;
    const RdmaCmCalls& calls_;
    rdma_event_channel* channel_ = nullptr;
    rdma_cm_id* listener_ = nullptr;
    sockaddr_storage here_{}; // without a port
    WireCmAddress address_{};
    // Ids without context, to be destroyed when the port is up.
    std::vector<rdma_cm_id*> parked_;
    // By queue pair number; the address of a record never changes.
    std::map<std::uint32_t, Encounter> encounters_;
    struct Notice {
        Event event;
        std::string why;
    };
    std::deque<Notice> notices_;
};

// -------------------------------------------------------------------------------------------------
// Opening

RdmaCm::~RdmaCm() {
    for (auto& [number, encounter] : encounters_) {
        drop_id(encounter);
    }
    destroy_parked();
    if (listener_ != nullptr) {
        calls_.destroy_id(listener_);
    }
    if (channel_ != nullptr) {
        calls_.destroy_event_channel(channel_);
    }
}

Status RdmaCm::open(std::string& error_text) {
    ADAPTIB_INVARIANT(channel_ == nullptr && listener_ == nullptr, "a service is opened once",
                      channel_, listener_);
    errno = 0;
    channel_ = calls_.create_event_channel();
    if (channel_ == nullptr) {
        const int error = error_number(-1);
        error_text = std::string("cannot use rdma_cm: ") + std::strerror(error) +
                     " (is the kernel module rdma_ucm loaded, and may this user open "
                     "/dev/infiniband/rdma_cm?)";
        return status_of(error);
    }
    if (const int error = calls_.set_nonblocking(channel_); error != 0) {
        error_text = std::string("cannot deliver events of rdma_cm: ") + std::strerror(error);
        return status_of(error);
    }
    if (const Status status = bind(error_text); !status.ok()) {
        return status;
    }
    errno = 0;
    if (calls_.listen(listener_, kBacklog) != 0) {
        const int error = error_number(-1);
        error_text = "cannot listen at " + ip_text(here_) + " by rdma_cm: " + std::strerror(error);
        return status_of(error);
    }
    address_.family = here_.ss_family == AF_INET ? 4 : 6;
    address_.port = calls_.get_src_port(listener_);
    if (here_.ss_family == AF_INET) {
        std::memcpy(address_.ip, &reinterpret_cast<sockaddr_in&>(here_).sin_addr, 4);
    } else {
        std::memcpy(address_.ip, &reinterpret_cast<sockaddr_in6&>(here_).sin6_addr, 16);
    }
    return kOk;
}

bool RdmaCm::bound_here(const rdma_cm_id& id) const {
    return id.verbs != nullptr && id.port_num == rail_.port().number &&
           rail_.calls().get_device_name(id.verbs->device) == rail_.device().name();
}

// Binds to this port's address, found among all addresses of the host: the GID's address comes
// first, because it is most likely the right one (RoCE), IPv6 addresses last. Only rdma_cm knows
// which interface belongs to which port.
Status RdmaCm::bind(std::string& error_text) {
    std::vector<sockaddr_storage> candidates = calls_.host_addresses();
    std::stable_sort(
        candidates.begin(), candidates.end(),
        [this](const sockaddr_storage& a, const sockaddr_storage& b) {
            const auto rank = [this](const sockaddr_storage& each) {
                return is_ip_of(each, rail_.port().gid.gid) ? 0 : each.ss_family == AF_INET ? 1 : 2;
            };
            return rank(a) < rank(b);
        });
    for (sockaddr_storage& candidate : candidates) {
        set_port(candidate, 0);
        errno = 0;
        if (calls_.create_id(channel_, &listener_, nullptr, RDMA_PS_TCP) != 0) {
            const int error = error_number(-1);
            listener_ = nullptr;
            error_text = std::string("cannot use rdma_cm: ") + std::strerror(error);
            return status_of(error);
        }
        if (calls_.bind_addr(listener_, reinterpret_cast<sockaddr*>(&candidate)) == 0 &&
            bound_here(*listener_)) {
            here_ = candidate;
            return kOk;
        }
        calls_.destroy_id(listener_);
        listener_ = nullptr;
    }
    error_text = "has no IP address, which rdma_cm needs (assign one to its network interface; on "
                 "InfiniBand that is IPoIB)";
    return Status::error(Reason::no_device);
}

// -------------------------------------------------------------------------------------------------
// Connecting

// The scope of a link-local address is the link of this port.
sockaddr_storage RdmaCm::address_of(const WireCmAddress& at) const {
    sockaddr_storage out{};
    if (at.family == 4) {
        auto& ip = reinterpret_cast<sockaddr_in&>(out);
        ip.sin_family = AF_INET;
        std::memcpy(&ip.sin_addr, at.ip, sizeof ip.sin_addr);
    } else {
        auto& ip = reinterpret_cast<sockaddr_in6&>(out);
        ip.sin6_family = AF_INET6;
        std::memcpy(&ip.sin6_addr, at.ip, sizeof ip.sin6_addr);
        if (IN6_IS_ADDR_LINKLOCAL(&ip.sin6_addr) && here_.ss_family == AF_INET6) {
            ip.sin6_scope_id = reinterpret_cast<const sockaddr_in6&>(here_).sin6_scope_id;
        }
    }
    set_port(out, at.port);
    return out;
}

void RdmaCm::cm_connect(VerbsQueuePair& qp, const CmConnectParams& params) {
    Encounter& encounter = encounters_[qp.number()];
    const bool anew = encounter.qp == nullptr || encounter.params.initiates != params.initiates ||
                      encounter.params.token != params.token;
    drop_id(encounter);
    forget_notices(qp);
    encounter.qp = &qp;
    encounter.params = params;
    encounter.tries = anew ? 0 : encounter.tries;
    encounter.cm_connected = false;
    if (const Status status = qp.begin_again(); !status.ok()) {
        failed(encounter, std::string("the queue pair cannot be reset for another attempt: ") +
                              reason_text(status.reason()));
        return;
    }
    if (params.initiates) {
        begin(encounter);
    }
}

void RdmaCm::forget(const VerbsQueuePair& qp) {
    const auto found = encounters_.find(qp.number());
    if (found != encounters_.end()) {
        drop_id(found->second);
        encounters_.erase(found);
    }
    forget_notices(qp);
}

void RdmaCm::forget_notices(const VerbsQueuePair& qp) {
    std::erase_if(notices_,
                  [&](const Notice& notice) { return notice.event.qp_number == qp.number(); });
}

void RdmaCm::begin(Encounter& encounter) {
    ADAPTIB_INVARIANT(encounter.id == nullptr && encounter.params.initiates,
                      "the end that initiates begins a try without an id", encounter.tries);
    ++encounter.tries;
    WireCmAddress at{};
    decode_cm_address(encounter.qp->wanted().path.remote, at);
    ADAPTIB_INVARIANT(at.family == 4 || at.family == 6, "the address of a try was checked before",
                      at.family);
    sockaddr_storage to = address_of(at);
    if (to.ss_family != here_.ss_family) {
        failed(encounter, "one end has an IPv4 address, the other IPv6");
        return;
    }
    errno = 0;
    if (calls_.create_id(channel_, &encounter.id, &encounter, RDMA_PS_TCP) != 0) {
        encounter.id = nullptr;
        call_failed(encounter, "rdma_create_id");
        return;
    }
    sockaddr_storage from = here_;
    if (calls_.resolve_addr(encounter.id, reinterpret_cast<sockaddr*>(&from),
                            reinterpret_cast<sockaddr*>(&to), kResolveMilliseconds) != 0) {
        call_failed(encounter, "rdma_resolve_addr");
    }
}

rdma_conn_param RdmaCm::parameters_of(const Encounter& encounter) const {
    const QpAttributes& wanted = encounter.qp->wanted();
    rdma_conn_param out{};
    out.responder_resources = static_cast<std::uint8_t>(wanted.max_target_reads);
    out.initiator_depth = static_cast<std::uint8_t>(wanted.max_reads);
    out.retry_count = wanted.retry_count;
    out.rnr_retry_count = wanted.rnr_retry;
    out.qp_num = encounter.qp->number();
    return out;
}

void RdmaCm::connect(Encounter& encounter) {
    ADAPTIB_INVARIANT(encounter.id != nullptr, "a try that goes on has an id", encounter.tries);
    Introduction introduction{};
    introduction.magic = kMagic;
    introduction.try_number = encounter.tries;
    introduction.target_qp = encounter.qp->wanted().remote_qp;
    introduction.token = encounter.params.token;
    rdma_conn_param parameters = parameters_of(encounter);
    parameters.private_data = &introduction;
    parameters.private_data_len = sizeof introduction;
    errno = 0;
    if (calls_.connect(encounter.id, &parameters) != 0) {
        call_failed(encounter, "rdma_connect");
    }
}

// Moves the queue pair to RTR and RTS. False: the rail's trouble text says why.
bool RdmaCm::rise(Encounter& encounter) {
    ADAPTIB_INVARIANT(encounter.id != nullptr, "a try that goes on has an id", encounter.tries);
    const auto ask = [&](ibv_qp_state state, ibv_qp_attr& out) {
        int mask = 0;
        out = {};
        out.qp_state = state;
        errno = 0;
        if (calls_.init_qp_attr(encounter.id, &out, &mask) == 0) {
            return true;
        }
        rail_.error_text_out() =
            std::string("rdma_init_qp_attr: ") + std::strerror(error_number(-1));
        return false;
    };
    ibv_qp_attr first{};
    ibv_qp_attr found{};
    if (!ask(IBV_QPS_INIT, first) || !ask(IBV_QPS_RTR, found)) {
        return false;
    }
    if (found.dest_qp_num != encounter.qp->wanted().remote_qp) {
        rail_.error_text_out() = "another queue pair has answered";
        return false;
    }
    found.pkey_index = first.pkey_index;
    rail_.error_text_out().clear();
    Status status = encounter.qp->rise(QpState::ready_to_receive, found);
    if (status.ok()) {
        if (!ask(IBV_QPS_RTS, found)) {
            return false;
        }
        status = encounter.qp->rise(QpState::ready_to_send, found);
    }
    if (!status.ok() && rail_.error_text_out().empty()) {
        rail_.error_text_out() =
            std::string("the queue pair does not take the attributes of rdma_cm: ") +
            reason_text(status.reason());
    }
    return status.ok();
}

void RdmaCm::complete(Encounter& encounter) {
    if (!rise(encounter)) {
        failed(encounter, rail_.error_text_out());
        return;
    }
    errno = 0;
    if (calls_.establish(encounter.id) != 0) {
        call_failed(encounter, "rdma_establish");
        return;
    }
    encounter.cm_connected = true;
    report(EventKind::cm_connected, encounter, "");
}

// -------------------------------------------------------------------------------------------------
// Passive end

RdmaCm::Encounter* RdmaCm::whom(const CmEvent& request) {
    Introduction introduction{};
    if (request.data_bytes < sizeof introduction) {
        return nullptr;
    }
    std::memcpy(&introduction, request.data.data(), sizeof introduction);
    const auto found = encounters_.find(introduction.target_qp);
    if (introduction.magic != kMagic || found == encounters_.end()) {
        return nullptr;
    }
    Encounter& encounter = found->second;
    const bool expected = !encounter.params.initiates && !encounter.cm_connected &&
                          encounter.qp->last_state() != QpState::error &&
                          encounter.params.token == introduction.token &&
                          encounter.qp->wanted().remote_qp == request.parameters.qp_num &&
                          introduction.try_number > encounter.tries;
    if (!expected) {
        return nullptr;
    }
    encounter.tries = introduction.try_number;
    return &encounter;
}

void RdmaCm::on_request(const CmEvent& event) {
    Encounter* encounter = whom(event);
    if (encounter == nullptr) {
        reject(event.id, Rejection::unknown);
        return;
    }
    drop_id(*encounter);
    encounter->id = event.id;
    event.id->context = encounter;
    if (!encounter->qp->begin_again().ok() || !rise(*encounter) || !answer(*encounter, event)) {
        encounter->id = nullptr;
        reject(event.id, Rejection::failed);
    }
}

bool RdmaCm::answer(Encounter& encounter, const CmEvent& request) {
    rdma_conn_param parameters = parameters_of(encounter);
    const rdma_conn_param& asked = request.parameters;
    parameters.responder_resources =
        std::min(parameters.responder_resources, asked.responder_resources);
    parameters.initiator_depth = std::min(parameters.initiator_depth, asked.initiator_depth);
    return calls_.accept(encounter.id, &parameters) == 0;
}

void RdmaCm::reject(rdma_cm_id* id, Rejection why) {
    // If the message is lost, the other end gets a timeout.
    calls_.reject(id, &why, sizeof why);
    calls_.destroy_id(id);
}

// -------------------------------------------------------------------------------------------------
// Events

bool RdmaCm::read(CmEvent& out) {
    rdma_cm_event* event = nullptr;
    if (calls_.get_event(channel_, &event) != 0) {
        return false;
    }
    out.id = event->id;
    out.type = event->event;
    out.status = event->status;
    out.parameters = event->param.conn;
    out.data_bytes = 0;
    const bool has_data =
        out.type == RDMA_CM_EVENT_CONNECT_REQUEST || out.type == RDMA_CM_EVENT_REJECTED;
    if (has_data && out.parameters.private_data != nullptr) {
        out.data_bytes = std::min<std::size_t>(out.parameters.private_data_len, out.data.size());
        std::memcpy(out.data.data(), out.parameters.private_data, out.data_bytes);
    }
    out.parameters.private_data = nullptr;
    calls_.ack_event(event);
    return true;
}

void RdmaCm::progress(std::deque<Event>& out) {
    if (!parked_.empty() && rail_.state() == PortState::active) {
        destroy_parked();
    }
    CmEvent event{};
    for (int i = 0; i < kMostAtOnce && notices_.empty() && read(event); ++i) {
        handle(event);
    }
    if (!notices_.empty()) {
        out.push_back(notices_.front().event);
        rail_.error_text_out() = notices_.front().why;
        notices_.pop_front();
    }
}

void RdmaCm::handle_listener(const CmEvent& event) {
    if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
        calls_.destroy_id(std::exchange(listener_, nullptr));
        rail_.set_down();
        notices_.push_back({{EventKind::device_fatal, rail_.index(), 0, nullptr}, ""});
    }
}

// Not reported: ADDR_CHANGE and TIMEWAIT_EXIT (they have no consequences), and the end of an
// established connection: its queue pairs tell more, or their user has closed it.
void RdmaCm::handle(const CmEvent& event) {
    if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        on_request(event);
        return;
    }
    if (event.id == listener_) {
        handle_listener(event);
        return;
    }
    if (event.id->context == nullptr) {
        return; // parked
    }
    Encounter& encounter = *static_cast<Encounter*>(event.id->context);
    ADAPTIB_INVARIANT(encounter.id == event.id, "the context of an id is the record that has it",
                      encounter.id, event.id);
    switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        errno = 0;
        if (!bound_here(*event.id)) {
            failed(encounter, "the route to the other side leaves through another port");
        } else if (calls_.resolve_route(event.id, kResolveMilliseconds) != 0) {
            call_failed(encounter, "rdma_resolve_route");
        }
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED: connect(encounter); break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE: complete(encounter); break;
    case RDMA_CM_EVENT_ESTABLISHED: encounter.cm_connected = true; break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        if (encounter.cm_connected) {
            drop_id(encounter);
        } else {
            failed(encounter, failure_text(event));
        }
        break;
    default: break;
    }
}

// The passive end just goes on waiting.
void RdmaCm::failed(Encounter& encounter, const std::string& why) {
    drop_id(encounter);
    if (encounter.params.initiates) {
        report(EventKind::cm_failed, encounter, "rdma_cm: " + why);
    }
}

void RdmaCm::call_failed(Encounter& encounter, const char* call) {
    failed(encounter, std::string(call) + ": " + std::strerror(error_number(-1)));
}

void RdmaCm::report(EventKind kind, const Encounter& encounter, const std::string& why) {
    ADAPTIB_INVARIANT(encounter.qp != nullptr, "what is reported concerns a queue pair", kind);
    notices_.push_back({{kind, rail_.index(), encounter.qp->number(), nullptr}, why});
}

// Destroying an id sends the other end a message. That must not be tried over a port that is down:
// soft-RoCE spins, and the queue pair that carries all such messages of the port never sends again.
void RdmaCm::drop_id(Encounter& encounter) {
    rdma_cm_id* const id = std::exchange(encounter.id, nullptr);
    if (id == nullptr) {
        return;
    }
    ADAPTIB_INVARIANT(id->context == &encounter, "the context of an id is the record that has it",
                      id->context);
    if (rail_.state() == PortState::active) {
        calls_.destroy_id(id);
    } else {
        ADAPTIB_AUDIT(std::find(parked_.begin(), parked_.end(), id) == parked_.end(),
                      "an id is parked once", id);
        id->context = nullptr;
        parked_.push_back(id);
    }
}

void RdmaCm::destroy_parked() {
    for (rdma_cm_id* id : std::exchange(parked_, {})) {
        calls_.destroy_id(id);
    }
}

} // namespace

Status open_rdma_cm(VerbsRail& rail, const RdmaCmCalls& calls, std::unique_ptr<CmService>& out,
                    std::string& error_text) {
    auto made = std::make_unique<RdmaCm>(rail, calls);
    const Status status = made->open(error_text);
    if (status.ok()) {
        out = std::move(made);
    }
    return status;
}

} // namespace adaptib::verbs

#else

namespace adaptib::verbs {

Status open_rdma_cm(VerbsRail&, const RdmaCmCalls&, std::unique_ptr<CmService>&,
                    std::string& error_text) {
    error_text = "cannot use rdma_cm: this adaptib was built without librdmacm";
    return Status::error(Reason::not_supported);
}

} // namespace adaptib::verbs

#endif
