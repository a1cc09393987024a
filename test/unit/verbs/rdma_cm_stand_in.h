// SPDX-License-Identifier: BSD-3-Clause
// A stand-in for librdmacm, beside that for libibverbs: ids in memory that keep the rules of
// the manual pages.
//
// Purpose: carries requests and replies between ids as a network would, one step at a time, and a
// test can replace the outcome of each step. Complains about what the library would not forgive (a
// call in the wrong state, an id destroyed twice or before its events are acknowledged, a queue
// pair that is not ready for the parameters of a call). The StandIn counts the calls, makes them
// fail, and keeps the complaints.
// Ownership: ids and channels end with the stand-in; one at a time, beside a StandIn.
// Threads: one.
// May touch: fabric/verbs/rdma_cm_calls.h.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fabric/verbs/rdma_cm_calls.h"
#include "unit/verbs/stand_in.h"

namespace adaptib::test {

enum class IdState : std::uint8_t {
    idle,
    bound,
    listening,
    address_asked,
    address_known,
    route_asked,
    route_known,
    connecting, // the request is in flight
    responded,  // the reply has come
    requested,  // the passive end, which has got a request
    accepted,
    connected,
    over,
};

struct FakeChannel : rdma_event_channel {
    bool alive = true;
    bool nonblocking = false;
    std::deque<std::unique_ptr<rdma_cm_event>> events;
};
struct FakeId : rdma_cm_id {
    bool alive = true;
    IdState state = IdState::idle;
    int unacknowledged = 0;
    std::string ip; // local address
    std::uint16_t tcp_port = 0;
    std::string to_ip;
    std::uint16_t to_port = 0;
    FakeId* partner = nullptr; // the other end, once it exists
    std::uint32_t qp_number = 0;
    std::uint32_t psn = 0; // the first one that it receives
    std::vector<std::byte> data;
    rdma_conn_param said{}; // parameters of connect or accept
    rdma_conn_param seen{}; // parameters in the request
};

class RdmaCmStandIn {
public:
    std::uint8_t traffic_class = 9; // that it finds for each path

    RdmaCmStandIn();
    ~RdmaCmStandIn();
    RdmaCmStandIn(const RdmaCmStandIn&) = delete;
    RdmaCmStandIn& operator=(const RdmaCmStandIn&) = delete;

    static const verbs::RdmaCmCalls& calls();

    // Adds an IP address of this host, on a port of a device of the StandIn (null: of no device).
    void add_address(const std::string& ip, const char* device, int port = 1);

    // Carries out the next pending step. Returns false if there is none.
    bool step();
    void run() {
        while (step()) {
        }
    }
    // Replaces the next event of one kind by another, which goes to the active end.
    struct Instead {
        rdma_cm_event_type event;
        rdma_cm_event_type other;
        int status;
    };
    std::optional<Instead> instead;
    // Puts an event into the queue of the id's channel.
    void raise(FakeId& id, rdma_cm_event_type type, int status, const void* data = nullptr,
               std::size_t bytes = 0);
    // Delivers a stranger's request to `listener`; returns the new id that it creates.
    FakeId& request(FakeId& listener, std::uint32_t from_qp, const void* data, std::size_t bytes);

    int living() const;                  // ids and channels
    FakeId& listener(std::size_t index); // the index-th listening id
    // Ids that are alive, except listeners.
    std::vector<FakeId*> active() const;

    std::vector<std::unique_ptr<FakeChannel>> channels;
    std::vector<std::unique_ptr<FakeId>> ids;
    // Private data of the replies by which passive ends rejected.
    std::vector<std::vector<std::byte>> rejections;
    std::vector<std::string> log; // calls that make connections, in order

    // Used by the calls.
    struct Address {
        std::string ip;
        std::string device;
        int port;
    };
    static RdmaCmStandIn& current();
    std::vector<Address> addresses;
    struct Action {
        FakeId* id;
        rdma_cm_event_type type;
        std::vector<std::byte> data;
    };
    std::deque<Action> actions;
    const Address* find(const std::string& ip) const;
    void attach(FakeId& id);

private:
    void deliver_request(FakeId& from);

    // The library opens devices of its own, which it identifies by name.
    struct OwnDevice {
        ibv_device device{};
        ibv_context context{};
    };
    std::vector<std::unique_ptr<OwnDevice>> devices_;
};

} // namespace adaptib::test
