// SPDX-License-Identifier: BSD-3-Clause
// A stand-in for libibverbs: devices in memory that keep the rules of the manual pages.
//
// Purpose: records the fabric's calls, complains about what a real library would not forgive (a
// wrong mask, an object destroyed before its children or twice, an event never acknowledged), makes
// any call fail on request, and counts the objects left at the end. No data moves; completions and
// events are those that a test adds.
// Ownership: objects end with the StandIn, destroyed or not; one StandIn at a time.
// Threads: calls on any thread; a test that looks at the members while others call holds lock().
// May touch: fabric/verbs/verbs_calls.h.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fabric/verbs/verbs_calls.h"

namespace adaptib::test {

struct FakePort {
    ibv_port_attr attributes{};
    std::vector<ibv_gid_entry> gids;
    std::vector<std::uint16_t> pkeys{0xffff};
};

struct FakeDevice {
    std::string name;
    std::string sysfs; // ibdev_path
    ibv_node_type node_type = IBV_NODE_CA;
    ibv_transport_type transport = IBV_TRANSPORT_IB;
    ibv_device_attr limits{};
    std::uint32_t inline_bytes = 512;
    bool no_inline = false;     // accepts any inline_bytes, and gives none, as hfi1
    bool reuses = true;         // queue pairs that were reset (irdma: not)
    bool receives_stay = false; // flushed at the move to ERR alone, not even by RESET (hfi1)
    bool rc = true;
    bool ud = true;
    bool resizes = true;       // completion queues
    bool rounds_sends = false; // the depth of a send queue, up to 2^n - 1 as soft-RoCE does
    // For mlx5_stand_in.h: whether libmlx5 drives the device, and which ends of DC it has.
    bool mlx5 = false;
    bool initiators = true;
    bool targets = true;
    std::uint32_t initiator_inline_bytes = 512;
    std::uint32_t initiator_gets_inline = 512; // at most, whatever was asked for
    std::uint32_t initiator_reads = 16;
    std::vector<FakePort> ports;
};

// One active port with GIDs 0 link-local v1, 1 link-local v2, 2 ::ffff:10.0.0.1 v1, 3 the same v2.
FakeDevice roce_device(const std::string& name);
// Active ports with LIDs 16, 32, ... and with `lmc`.
FakeDevice ib_device(const std::string& name, int ports, std::uint8_t lmc);
ibv_gid_entry gid(const char* text, ibv_gid_type type, std::uint32_t index);

struct FakeContext : ibv_context {
    std::size_t device_index = 0;
    bool alive = true;
    bool nonblocking = false;
    std::deque<ibv_async_event> events;
};
struct FakePd : ibv_pd {
    bool alive = true;
    int users = 0;
};
struct FakeMr : ibv_mr {
    bool alive = true;
    int access = 0;
    int file = -1; // of a region that was registered by a file
    std::uint64_t offset = 0;
};
struct FakeAh : ibv_ah {
    bool alive = true;
    ibv_ah_attr attributes{};
};
// Queues notifications of armed completion queues; its descriptor counts them.
struct FakeCompletionChannel : ibv_comp_channel {
    bool alive = true;
    int users = 0;
    std::deque<ibv_cq*> events;
};
struct FakeCq : ibv_cq {
    bool alive = true;
    int users = 0;
    bool armed = false;
    int unacknowledged = 0;
    std::deque<ibv_wc> completions;
};
struct FakeSrq : ibv_srq {
    bool alive = true;
    int users = 0;
    int unacknowledged = 0;
    ibv_srq_attr attributes{};
    std::uint32_t posted = 0;
};
// ibv_qp_type has one value (IBV_QPT_DRIVER) for both ends.
constexpr auto kDcInitiator = static_cast<ibv_qp_type>(0xfd);
constexpr auto kDcTarget = static_cast<ibv_qp_type>(0xfe);

struct FakeQp : ibv_qp {
    bool alive = true;
    ibv_qp_type kind = IBV_QPT_RC; // also kDcInitiator, kDcTarget
    bool was_reset = false;
    int unacknowledged = 0;
    ibv_qp_init_attr init{};
    ibv_mig_state migration = IBV_MIG_MIGRATED;
    std::deque<std::pair<std::uint64_t, bool>> sends; // wr_id, signaled
    std::uint32_t receives = 0;
};

struct ModifyCall {
    std::uint32_t qp_number;
    ibv_qp_state from;
    int mask;
    ibv_qp_attr attributes;
};
struct SendCall {
    std::uint32_t qp_number;
    ibv_send_wr request;
    std::vector<ibv_sge> list;
};
struct ReceiveCall {
    std::uint32_t qp_number; // 0: a shared receive queue
    std::uint64_t wr_id;
    std::vector<ibv_sge> list;
};

class StandIn {
public:
    StandIn();
    ~StandIn();
    StandIn(const StandIn&) = delete;
    StandIn& operator=(const StandIn&) = delete;

    static const verbs::Calls& calls();
    static std::recursive_mutex& lock();

    std::vector<FakeDevice> devices;
    int writes_in_order = 1;       // answer of the library; -1: it does not have the question
    int targets_in_order = 1;      // the same answer for DC targets, in RTR
    bool tells_order_early = true; // else 0 before RTS, as mlx5
    ibv_fork_status fork = IBV_FORK_DISABLED;

    // Makes the nth call of that name fail, counted from 1 and from now on.
    void fail(const std::string& call, int nth, int error);
    const std::map<std::string, int>& counts() const { return counts_; }
    int count(const std::string& call) const;
    bool failed() const { return failed_; } // the failure that was asked for has happened

    // Objects that are not destroyed yet, of one kind ("qp", ...), and in all.
    int living(const std::string& kind) const;
    int living() const;
    const std::vector<std::string>& complaints() const { return complaints_; }
    void forget_complaints() { complaints_.clear(); }

    // The objects, in the order of their creation.
    std::vector<std::unique_ptr<FakeContext>> contexts;
    std::vector<std::unique_ptr<FakePd>> pds;
    std::vector<std::unique_ptr<FakeMr>> mrs;
    std::vector<std::unique_ptr<FakeAh>> ahs;
    std::vector<std::unique_ptr<FakeCompletionChannel>> channels;
    std::vector<std::unique_ptr<FakeCq>> cqs;
    std::vector<std::unique_ptr<FakeSrq>> srqs;
    std::vector<std::unique_ptr<FakeQp>> qps;
    FakeQp& qp(std::uint32_t number);

    std::vector<ModifyCall> modified;
    std::vector<SendCall> sent;
    std::vector<ReceiveCall> received;

    // Adds a completion to the send or receive queue of that queue pair.
    void complete_send(std::uint32_t qp_number, ibv_wc completion);
    void complete_receive(std::uint32_t qp_number, ibv_wc completion);
    void raise(std::size_t context, ibv_async_event event);
    void raise_port(std::size_t context, ibv_event_type type, int port);
    void raise_qp(ibv_event_type type, std::uint32_t qp_number);

    // Used by the calls.
    static StandIn& current();
    int enter(const char* call); // 0, or the error that the call has to fail with
    void complain(const std::string& text) { complaints_.push_back(text); }
    FakeDevice& device_of(ibv_context* context);
    FakeDevice& listed(ibv_device* device); // as listed by get_device_list
    int living_lists = 0;
    std::uint32_t target_numbers = 5000; // number of the DC target that came to RTR last
    FakeQp* dc_posting = nullptr;        // between ibv_wr_start and ibv_wr_complete

private:
    void add_completion(FakeCq& queue, const ibv_wc& completion);

    std::map<std::string, int> counts_;
    std::string fail_call_;
    int fail_nth_ = 0;
    int fail_error_ = 0;
    bool failed_ = false;
    std::vector<std::string> complaints_;
};

// Used by the calls: makes a new queue pair, and counts it as a user of its objects.
FakeQp& enter_qp(ibv_pd* pd, const ibv_qp_init_attr& init, ibv_qp_type kind);

// Fills the calls' slots for objects (stand_in_objects.cc).
void add_object_calls(verbs::Calls& calls);

} // namespace adaptib::test
