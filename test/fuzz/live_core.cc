// SPDX-License-Identifier: BSD-3-Clause
// Live cores under a stranger's messages (live_core.h).
//
// Each message carries the right keys and, mostly, the next sequence number, so that it reaches the
// protocol. Its type, envelope and body come from the input. Ids come from a small range that
// contains the ids of live requests; addresses and keys come from the input or name real memory.
#include "fuzz/live_core.h"

#include <array>
#include <deque>
#include <memory>
#include <string>

#include "base/wire_connect.h"
#include "core/core.h"
#include "fabric/shm/shm_fabric.h"
#include "unit/core/address_table.h"

namespace adaptib::fuzz {

namespace {

constexpr std::size_t kMaxActions = 120;
constexpr std::size_t kNodes = 2;
constexpr std::size_t kLargest = 20000; // message length; above all limits in small_parameters

std::uint64_t name_of(std::size_t node) { return (std::uint64_t{7} << 32) | node; }

// A request with its buffer. With pack functions the data moves in elements of 7 bytes.
struct Request {
    UserRequest user{}; // stays first: complete() gets its address and casts it
    std::vector<std::byte> buffer;
    std::size_t node = 0; // the node that started it
    bool is_receive = false;
    bool done = false;
    bool taken = false; // canceled, or never started

    explicit Request(std::size_t bytes) : buffer(bytes, std::byte{0x5a}) {
        user.complete = [](UserRequest* request) {
            auto* self = reinterpret_cast<Request*>(request);
            require(!self->done && !self->taken, "a request is reported once");
            self->done = true;
            require(request->bytes <= self->buffer.size(), "no more bytes than there is room for");
        };
    }

    Data data(bool packed) {
        static std::byte nothing;
        if (packed && !buffer.empty()) {
            return {nullptr, buffer.size(), &Request::pack, &Request::unpack, this};
        }
        return {buffer.empty() ? &nothing : buffer.data(), buffer.size(), nullptr, nullptr,
                nullptr};
    }

private:
    static int pack(void* context, std::size_t offset, void* to, std::size_t* length) {
        auto& self = *static_cast<Request*>(context);
        require(offset <= self.buffer.size(), "pack starts within the message");
        std::size_t end = std::min(offset + *length, self.buffer.size());
        if (end != self.buffer.size()) {
            end -= end % 7;
        }
        *length = end > offset ? end - offset : 0;
        std::memcpy(to, self.buffer.data() + offset, *length);
        return 0;
    }
    static int unpack(void* context, std::size_t offset, const void* from, std::size_t* length) {
        auto& self = *static_cast<Request*>(context);
        require(offset + *length <= self.buffer.size(), "unpack stays within the buffer");
        std::memcpy(self.buffer.data() + offset, from, *length);
        return 0;
    }
};

// Small rings, blocks and limits, so that short inputs reach every code path.
Parameters small_parameters(Input& input) {
    static char put[] = "put";
    static char none[] = "none";
    Parameters parameters = default_parameters();
    const auto bits = input.take<std::uint8_t>();
    parameters.connect_max = (bits & 64) != 0 ? 1 : 0;
    parameters.eager_limit = (bits & 1) != 0 ? 200 : 1500;
    parameters.rendezvous = (bits & 2) != 0 ? put : parameters.rendezvous;
    parameters.connect_threshold = (bits & 4) != 0 ? 0 : 3;
    parameters.shm_single_copy = (bits & 8) != 0 ? none : parameters.shm_single_copy;
    parameters.shm_rails = (bits & 16) != 0 ? 2 : 1;
    parameters.ring_max = (bits & 32) != 0 ? 0 : 4;
    parameters.ring_bytes = 4096;
    parameters.block_bytes = 1024;
    parameters.block_depth = 3;
    parameters.shm_queue_bytes = 65536;
    parameters.shm_segment_max = 16 * kMiB;
    return parameters;
}

class World {
public:
    explicit World(Input& input) : input_(input), parameters_(small_parameters(input)) {
        std::string text;
        require(check_parameters(parameters_, text), "the parameters are allowed");
        for (std::size_t i = 0; i < kNodes; ++i) {
            open_node(i);
        }
        open_stranger();
        for (std::size_t i = 0; i < kNodes; ++i) {
            peers_[i] = peer_at(i, 1 - i);
        }
        from_stranger_ = peer_at(0, kNodes);
    }

    void run() {
        for (std::size_t i = 0; i < kMaxActions && !input_.empty(); ++i) {
            act();
        }
        for (int i = 0; i < 64; ++i) {
            progress();
        }
    }

private:
    struct Node {
        explicit Node(std::uint64_t seed) : random(seed) {}
        Random random;
        Counters counters;
        std::unique_ptr<Core> core;
    };

    std::unique_ptr<Fabric> open_fabric() {
        ShmOptions shm;
        shm.rails = static_cast<std::uint32_t>(parameters_.shm_rails);
        shm.queue_bytes = parameters_.shm_queue_bytes;
        shm.segment_max = parameters_.shm_segment_max;
        shm.single_copy = std::string(parameters_.shm_single_copy) == "none"
                              ? ShmOptions::SingleCopy::none
                              : ShmOptions::SingleCopy::automatic;
        shm.clock = &clock_;
        std::unique_ptr<Fabric> fabric;
        std::string text;
        const Status opened = open_shm_fabric(shm, fabric, text);
        require(opened.ok(), text.c_str());
        return fabric;
    }

    void open_node(std::size_t i) {
        nodes_[i] = std::make_unique<Node>(i + 1);
        Node& node = *nodes_[i];
        Core::Environment environment;
        environment.self = name_of(i);
        environment.local_rank = static_cast<std::uint32_t>(i);
        environment.host = "host";
        environment.bootstrap = &table_;
        environment.clock = &clock_;
        environment.random = &node.random;
        environment.watch_memory = [] { return true; };
        environment.counters = &node.counters;
        environment.message = [](Severity, const std::string& message) {
            require(!message.empty(), "a message says something");
        };
        std::string text;
        const Status created =
            Core::create(parameters_, environment, open_fabric(), node.core, text);
        require(created.ok(), text.c_str());
        table_.blobs[name_of(i)] = node.core->address();
        require(
            decode(node.core->address().data(), node.core->address().size(), addresses_[i]).ok(),
            "a core's address is one");
    }

    // Opens the stranger's three voices: 0 and 1 speak to a node in the other node's name, 2 speaks
    // to node 0 in the stranger's own name.
    void open_stranger() {
        stranger_ = open_fabric();
        Rail& rail = *stranger_->rails()[0];
        constexpr std::uint64_t kKey = 0x57a9;
        const std::array<DatagramChannel::Identity, 3> identities{
            {{name_of(1), addresses_[1].key}, {name_of(0), addresses_[0].key}, {name_of(2), kKey}}};
        for (std::size_t i = 0; i < voices_.size(); ++i) {
            require(DatagramChannel::create(rail, identities[i], clock_, stranger_counters_,
                                            voices_[i].channel)
                        .ok(),
                    "a stranger's channel opens");
            const ProcessAddress& to = addresses_[i == 1 ? 1 : 0];
            PathSpec path;
            path.remote.size = to.rails[0].size;
            path.remote.bytes = to.rails[0].bytes;
            voices_[i].target.qp = to.rails[0].datagram_qp;
            voices_[i].target.key = to.key;
            require(rail.create_ah(path, voices_[i].target.handle).ok(), "a node can be reached");
        }
        ProcessAddress own = addresses_[0];
        own.name = name_of(2);
        own.key = kKey;
        own.rails.resize(1);
        const RailAddress at = rail.address();
        own.rails[0] = {at.size, at.bytes, voices_[2].channel->qp_number()};
        table_.blobs[own.name] = encode(own);
        require(rail.allocate(kLargest, kLocalWrite | kRemoteRead | kRemoteWrite, window_).ok(),
                "the stranger has memory");
    }

    Peer* peer_at(std::size_t node, std::size_t other) {
        Peer* peer = nullptr;
        require(nodes_[node]->core->peers().get(name_of(other), peer).ok(), "a peer is found");
        return peer;
    }

    void progress() {
        for (const std::unique_ptr<Node>& node : nodes_) {
            node->core->progress();
            CompletedList& completed = node->core->protocol().completed();
            while (!completed.empty()) {
                UserRequest* user = completed.pop();
                user->complete(user);
            }
        }
        for (Voice& voice : voices_) {
            voice.channel->poll([](const DatagramArrival&) {}, 64);
        }
    }

    void act() {
        switch (input_.below(16)) {
        case 8: user_sends(); break;
        case 9: user_receives(); break;
        case 10: user_takes(); break;
        case 11: user_cancels(); break;
        case 12: scribble(); break;
        case 13: release(); break;
        case 14:
        case 15: pass_time(); break;
        default: inject(); break;
        }
    }

    void pass_time() {
        for (std::uint32_t passes = 1 + input_.below(16); passes > 0; --passes) {
            progress();
        }
        clock_.advance(Nanoseconds{input_.take<std::uint16_t>()});
    }

    // ---------------------------------------------------------------------------------------------
    // Users

    std::size_t length() {
        static constexpr std::array<std::size_t, 8> kEdges{0,    1,    200,  201,
                                                           1500, 1501, 5000, kLargest};
        const auto raw = input_.take<std::uint8_t>();
        return (raw & 128) != 0 ? raw & 127u : kEdges[raw % kEdges.size()];
    }
    Envelope pattern() {
        const auto raw = input_.take<std::uint8_t>();
        return {static_cast<std::uint32_t>(raw & 1),
                (raw & 2) != 0 ? Envelope::kAnySource : static_cast<std::int32_t>((raw >> 2) & 1),
                (raw & 8) != 0 ? Envelope::kAnyTag : static_cast<std::int32_t>((raw >> 4) & 3)};
    }
    Envelope envelope() {
        const auto raw = input_.take<std::uint8_t>();
        return {static_cast<std::uint32_t>(raw & 1), static_cast<std::int32_t>((raw >> 2) & 1),
                static_cast<std::int32_t>((raw >> 4) & 3)};
    }

    void note(Request& request, Status status, bool complete) {
        if (!status.ok()) {
            request.taken = true;
        } else if (complete) {
            request.user.complete(&request.user);
        }
    }

    void user_sends() {
        const std::size_t node = input_.below(kNodes);
        Request& request = requests_.emplace_back(length());
        request.node = node;
        const auto bits = input_.take<std::uint8_t>();
        Peer* peer = nullptr; // stands for the node itself
        if ((bits & 4) == 0) {
            peer = peer_at(node, 1 - node);
        }
        bool complete = false;
        const Status status = nodes_[node]->core->protocol().sends().send(
            peer, envelope(), request.data((bits & 1) != 0), (bits & 2) != 0, OpKind::blocking,
            request.user, complete);
        note(request, status, complete);
    }

    void user_receives() {
        const std::size_t node = input_.below(kNodes);
        Request& request = requests_.emplace_back(length());
        request.node = node;
        request.is_receive = true;
        const Envelope which = pattern();
        const Data data = request.data(input_.flag());
        bool complete = false;
        const Status status =
            nodes_[node]->core->protocol().receives().receive(which, data, request.user, complete);
        note(request, status, complete);
    }

    void user_takes() {
        const std::size_t node = input_.below(kNodes);
        Protocol& protocol = nodes_[node]->core->protocol();
        InboundMessage* message = protocol.receives().take(pattern());
        if (message == nullptr) {
            return;
        }
        Request& request = requests_.emplace_back(length());
        request.node = node;
        request.is_receive = true;
        const Data data = request.data(input_.flag());
        bool complete = false;
        const Status status =
            protocol.receives().receive_taken(*message, data, request.user, complete);
        note(request, status, complete);
    }

    void user_cancels() {
        const std::size_t which = input_.take<std::uint8_t>();
        if (which >= requests_.size()) {
            return;
        }
        Request& request = requests_[which];
        const bool open = request.is_receive && !request.done && !request.taken;
        if (open && nodes_[request.node]->core->protocol().receives().cancel(request.user)) {
            request.taken = true;
        }
    }

    void release() {
        const std::size_t node = input_.below(kNodes);
        nodes_[node]->core->protocol().disconnects().release(*peers_[node]);
    }

    // ---------------------------------------------------------------------------------------------
    // The stranger

    // Overwrites a word of the memory that a peer writes into: ring and credit.
    void scribble() {
        Peer& peer = *peers_[input_.below(kNodes)];
        const std::uint64_t at = input_.take<std::uint16_t>();
        const auto word = input_.take<std::uint64_t>();
        if (peer.in.ring_memory != nullptr) {
            const std::uint64_t words = peer.in.ring_memory->length() / sizeof word;
            std::memcpy(static_cast<std::byte*>(peer.in.ring_memory->address()) +
                            at % words * sizeof word,
                        &word, sizeof word);
        }
    }

    std::uint64_t id() {
        const auto raw = input_.take<std::uint8_t>();
        return (std::uint64_t{1} + (raw >> 4)) << 32 | (raw & 15);
    }
    std::uint64_t address() {
        const auto raw = input_.take<std::uint8_t>();
        return (raw & 1) != 0 ? input_.take<std::uint64_t>()
                              : reinterpret_cast<std::uintptr_t>(window_->address()) + raw;
    }
    void keys(std::uint32_t& count, std::uint32_t* to) {
        count = input_.below(kMaxRails + 2);
        // Sets the top bit so that the key belongs to no region: the key of all memory would make
        // any address valid.
        const std::uint32_t key =
            input_.flag() ? input_.take<std::uint32_t>() | 0x80000000u : window_->remote_key();
        std::fill_n(to, kMaxRails, key);
    }

    template <typename Body> std::vector<std::byte> bytes_of(const Body& body) {
        std::vector<std::byte> bytes(sizeof body);
        std::memcpy(bytes.data(), &body, sizeof body);
        return bytes;
    }

    // Makes a body of the given type with plausible ids.
    std::vector<std::byte> plausible(MessageType type, const Peer& peer) {
        switch (type) {
        case MessageType::eager_sync:
        case MessageType::sync_ack:
        case MessageType::finish: return bytes_of(IdBody{id()});
        case MessageType::rendezvous: {
            RendezvousBody body{};
            body.bytes = length();
            body.send_id = id();
            body.address = address();
            body.op_kind = static_cast<OpKind>(input_.below(4));
            body.kind = input_.flag() ? SourceKind::direct : SourceKind::packed;
            keys(body.key_count, body.keys);
            body.key_epoch = epoch();
            std::vector<std::byte> bytes = bytes_of(body);
            bytes.resize(rendezvous_bytes(std::min(body.key_count, kMaxRails)));
            return bytes;
        }
        case MessageType::clear_to_send: {
            ClearBody body{id(), id(), length(), 0, 0, epoch(), 4, 1024, {}};
            body.address = input_.flag() ? address() : 0;
            std::uint32_t key_count = 0;
            keys(key_count, body.keys);
            body.key_count = static_cast<std::uint8_t>(key_count);
            return bytes_of(body);
        }
        case MessageType::block: {
            BlockBody body{};
            body.receive_id = id();
            body.offset = length();
            body.address = address();
            body.length = static_cast<std::uint32_t>(length());
            body.block = input_.below(4);
            keys(body.key_count, body.keys);
            body.key_epoch = epoch();
            return bytes_of(body);
        }
        case MessageType::block_done: return bytes_of(BlockDoneBody{id(), input_.below(4), 0});
        case MessageType::written: return bytes_of(WrittenBody{id(), length()});
        case MessageType::connect_request:
        case MessageType::connect_reply:
        case MessageType::connect_confirm: {
            const ConnectBody body = handshake(peer);
            std::vector<std::byte> bytes = bytes_of(body);
            bytes.resize(connect_bytes(body.subchannel_count));
            return bytes;
        }
        case MessageType::connect_refuse:
        case MessageType::connect_close:
        case MessageType::connect_keep:
        case MessageType::connect_yield:
            return bytes_of(ConnectNote{peer.connection.remote_number + input_.below(3),
                                        peer.connection.number + input_.below(2), input_.below(4),
                                        0});
        case MessageType::fragment: return bytes_of(FragmentBody{id(), length()});
        case MessageType::slice:
            return bytes_of(SliceBody{static_cast<MessageType>(input_.below(
                                          static_cast<std::uint32_t>(MessageType::count_))),
                                      0, 0, static_cast<std::uint32_t>(length()),
                                      static_cast<std::uint32_t>(length())});
        default: return {};
        }
    }

    // Mostly that of a process whose devices were never lost.
    std::uint8_t epoch() { return static_cast<std::uint8_t>(input_.flag() ? input_.below(3) : 0); }
    ConnectBody handshake(const Peer& peer) {
        ConnectBody body{};
        body.connection = peer.connection.remote_number + input_.below(3);
        body.answers = peer.connection.number + input_.below(2);
        body.subchannel_count = 1 + input_.below(3);
        body.ring_bytes = input_.below(3) * 4096;
        body.ring_address = round_up(address(), kCacheLine);
        body.credit_address = body.ring_address + body.ring_bytes;
        for (ConnectSubchannel& subchannel : std::span(body.subchannels).first<kMaxRails>()) {
            subchannel.rail = static_cast<std::uint8_t>(input_.below(3));
            subchannel.to = static_cast<std::uint8_t>(input_.below(3));
            subchannel.qp = addresses_[1].rails[0].datagram_qp + input_.below(8);
            subchannel.psn = input_.below(2);
            subchannel.path = static_cast<std::uint8_t>(subchannel.psn);
            subchannel.memory_key = window_->remote_key();
        }
        return body;
    }

    void inject() {
        const std::uint32_t which = input_.below(3);
        Voice& voice = voices_[which];
        const Peer& peer = which == 2 ? *from_stranger_ : *peers_[which];
        MessageHeader header;
        header.type = static_cast<MessageType>(
            input_.below(static_cast<std::uint32_t>(MessageType::count_) + 1));
        const auto bits = input_.take<std::uint8_t>();
        header.flags = bits & 3;
        header.sequence = peer.in.next_receive + ((bits & 4) != 0 ? (bits >> 3) - 8u : 0u);
        const Envelope with = envelope();
        header.context = with.context;
        header.source = with.source;
        header.tag = with.tag;
        std::vector<std::byte> body = plausible(header.type, peer);
        if (header.type == MessageType::eager || header.type == MessageType::eager_sync ||
            header.type == MessageType::fragment || header.type == MessageType::slice ||
            header.type == MessageType::active_part) {
            body.resize(body.size() + std::min<std::size_t>(length(), 1500));
        }
        const auto spoil = input_.take<std::uint8_t>();
        if ((spoil & 3) == 3 && !body.empty()) { // overwrites up to 8 bytes somewhere
            const std::size_t at = input_.take<std::uint8_t>() % body.size();
            input_.copy(body.data() + at, std::min<std::size_t>(8, body.size() - at));
        }
        header.length = static_cast<std::uint32_t>(body.size());
        std::byte* to = voice.channel->reserve(voice.target);
        if (to == nullptr) {
            return;
        }
        std::copy(body.begin(), body.end(), to);
        if ((spoil & 12) == 12) { // claims another length than it has
            header.length = std::min<std::uint32_t>(input_.take<std::uint16_t>(), 2000);
        }
        static_cast<void>(voice.channel->commit(voice.target, header)); // a full queue drops it
        if ((spoil & 16) == 0) {
            progress();
        }
    }

    struct Voice {
        std::unique_ptr<DatagramChannel> channel;
        DatagramTarget target;
    };

    Input& input_;
    Parameters parameters_;
    ManualClock clock_;
    test::AddressTable table_;
    std::deque<Request> requests_; // outlive the cores
    Counters stranger_counters_;
    std::unique_ptr<Fabric> stranger_;
    std::array<ProcessAddress, kNodes> addresses_;
    std::unique_ptr<MemoryRegion> window_;
    std::array<Voice, 3> voices_;
    std::array<std::unique_ptr<Node>, kNodes> nodes_;
    std::array<Peer*, kNodes> peers_{}; // each node's record of the other
    Peer* from_stranger_ = nullptr;
};

} // namespace

void run_live_cores(Input& input) {
    World world(input);
    world.run();
}

} // namespace adaptib::fuzz
