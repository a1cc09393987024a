// SPDX-License-Identifier: BSD-3-Clause
// Channels of AQPS over the simulated fabric (study/channel_ranks.h).
#include "study/channel_ranks.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace adaptib::study {

namespace {

constexpr std::uint32_t kEntries = 16; // s: of a ring
constexpr std::uint32_t kReceives = 4096;
constexpr std::uint32_t kDepth = 8192;     // what can be sent between two barriers
constexpr std::uint32_t kPool = 128;       // pi
constexpr std::uint32_t kIdlePolls = 1000; // then a ring is polled in turn with other idle ones
constexpr std::uint64_t kKey = 77;

enum Type : std::uint32_t { data, notice, credit, offer, switched };

} // namespace

// What a message is in memory; 32 bytes, as an eager message's header with one byte.
struct ChannelRanks::Wire {
    std::uint32_t type = 0;
    std::uint32_t from = 0;
    std::uint32_t sequence = 0;
    std::uint32_t argument = 0;
    std::uint64_t unused = 0;
    std::uint64_t stamp = 0; // of a ring's entry: how often it was written
};

// One direction between two ranks; kept by the receiver, used by the sender.
struct ChannelRanks::Link {
    std::uint32_t source = 0;
    // The sender's.
    Kind kind = Kind::shared_sendrecv;
    std::uint32_t next_send = 0;
    std::uint64_t written = 0;
    std::uint64_t allowed = kEntries; // may be written, by the credits that have come
    // The receiver's.
    bool wanted = false; // an offer is under way
    Kind granted = Kind::shared_sendrecv;
    std::unique_ptr<MemoryRegion> ring;
    std::uint64_t read = 0;
    std::uint64_t told = 0;
    std::uint32_t next_receive = 0;
    std::uint32_t counted = 0; // by the selection
    std::uint32_t idle = 0;    // polls in vain, in a row
    bool refused = false;      // a connection, since the mapping was last changed
    std::map<std::uint32_t, Wire> early;
};

struct ChannelRanks::Node final : sim::Event, sim::Activity {
    Node(ChannelRanks& owner, std::uint32_t index, std::uint32_t ranks, const ChannelCosts& costs)
        : all(owner), number(index), in(ranks), handles(ranks), connections(ranks),
          selector(costs) {}
    void happen() override { all.turn(*this); }
    void on_activity() override {
        if (in_turn) {
            again = true;
        } else if (!scheduled() || when() > process->now()) {
            all.world_.simulator().schedule(*this, process->now());
        }
    }
    Rail& rail() { return *fabric->rails()[0]; }

    ChannelRanks& all;
    std::uint32_t number;
    sim::Process* process = nullptr;
    std::unique_ptr<Fabric> fabric;
    std::unique_ptr<CompletionQueue> sends; // errors only
    std::unique_ptr<CompletionQueue> receives;
    std::unique_ptr<SharedReceiveQueue> srq;
    std::unique_ptr<MemoryRegion> buffers;
    std::vector<std::unique_ptr<QueuePair>> initiators;
    std::vector<std::unique_ptr<QueuePair>> targets;
    std::vector<Link> in; // by source
    std::vector<std::unique_ptr<AddressHandle>> handles;
    std::vector<std::unique_ptr<QueuePair>> connections; // by peer
    std::uint32_t connected = 0;
    std::uint32_t writing = 0;        // to so many by connections
    std::vector<std::uint32_t> rings; // sources with a ring that had traffic lately
    std::vector<std::uint32_t> cold;  // the others
    std::size_t next_cold = 0;
    Selector selector;
    Nanoseconds select_at{0};
    const std::vector<Act>* acts = nullptr;
    std::size_t at = 0;
    std::uint64_t received = 0; // data
    std::vector<bool> notices;
    bool in_turn = false;
    bool again = false;
};

void ChannelRanks::must(Status status) const {
    if (!status.ok()) {
        study_.fail(std::string("the simulated adapter refuses: ") + reason_text(status.reason()));
    }
}

namespace {

sim::WorldOptions world_of(const Study& study, const ChannelOptions& options) {
    sim::WorldOptions world;
    world.machine = options.machine;
    world.seed = options.seed;
    world.topology = sim::crossbar(options.ranks, {}, sim::links_of(world.machine));
    std::string text;
    if (!sim::Routes::compute(world.topology, world.routes, text)) {
        study.fail(text);
    }
    return world;
}

} // namespace

ChannelRanks::ChannelRanks(const Study& study, const ChannelOptions& options)
    : study_(study), options_(options), world_(world_of(study, options)) {
    build();
}

ChannelRanks::~ChannelRanks() {
    for (const auto& node : nodes_) {
        node->process->watch(nullptr);
        node->connections.clear();
        node->initiators.clear();
        node->targets.clear();
        node->srq.reset();
        node->sends.reset();
        node->receives.reset();
        node->handles.clear();
        node->in.clear();
        node->buffers.reset();
    }
}

// ---------------------------------------------------------------------------------------------------
// Resources

void ChannelRanks::build() {
    for (std::uint32_t i = 0; i < options_.ranks; ++i) {
        nodes_.push_back(std::make_unique<Node>(*this, i, options_.ranks, options_.costs));
        Node& node = *nodes_.back();
        sim::World::Attached at = world_.attach(i);
        node.fabric = std::move(at.fabric);
        node.process = at.process;
        Rail& rail = node.rail();
        must(rail.create_cq(1u << 15, node.sends));
        must(rail.create_cq(1u << 15, node.receives));
        must(rail.create_srq(kReceives, node.srq));
        must(rail.allocate(kReceives * sizeof(Wire), kLocalWrite, node.buffers));
        for (std::uint32_t slot = 0; slot < kReceives; ++slot) {
            const Gather room{static_cast<std::byte*>(node.buffers->address()) +
                                  slot * sizeof(Wire),
                              sizeof(Wire), node.buffers->local_key()};
            must(node.srq->post({slot, &room, 1}));
        }
        for (std::uint32_t pool = 0; pool < options_.dc_pool; ++pool) {
            QpInit init;
            init.type = QpType::dc_initiator;
            init.send_cq = node.sends.get();
            init.receive_cq = node.receives.get();
            init.send_depth = kDepth;
            init.inline_bytes = sizeof(Wire);
            QpAttributes a;
            must(rail.create_qp(init, node.initiators.emplace_back()));
            for (const QpState state : {QpState::init, QpState::ready_to_receive}) {
                a.state = state;
                must(node.initiators.back()->modify(a, kQpState));
            }
            a.state = QpState::ready_to_send;
            a.rnr_retry = 7;
            must(node.initiators.back()->modify(a,
                                                kQpState | kQpRetry | kQpSendPsn | kQpSendLimits));
            init.type = QpType::dc_target;
            init.srq = node.srq.get();
            must(rail.create_qp(init, node.targets.emplace_back()));
            a.state = QpState::init;
            a.access = kRemoteWrite;
            a.access_key = kKey;
            must(node.targets.back()->modify(a, kQpState | kQpAccess | kQpKey));
            a.state = QpState::ready_to_receive;
            must(node.targets.back()->modify(a, kQpState | kQpPath | kQpReceiveLimits));
        }
        for (std::uint32_t source = 0; source < options_.ranks; ++source) {
            node.in[source].source = source;
        }
        node.process->watch(&node);
    }
    for (const auto& from : nodes_) {
        for (const auto& to : nodes_) {
            PathSpec path;
            path.remote = to->rail().address();
            must(from->rail().create_ah(path, from->handles[to->number]));
        }
    }
}

// Both ends of one, for both directions.
void ChannelRanks::connect(Node& a, Node& b) {
    Node* ends[] = {&a, &b};
    for (int i = 0; i < 2; ++i) {
        QpInit init;
        init.send_cq = ends[i]->sends.get();
        init.receive_cq = ends[i]->receives.get();
        init.send_depth = kDepth;
        init.inline_bytes = sizeof(Wire);
        must(ends[i]->rail().create_qp(init, ends[i]->connections[ends[1 - i]->number]));
        ++ends[i]->connected;
        totals_.connected_most = std::max(totals_.connected_most, ends[i]->connected);
    }
    for (int i = 0; i < 2; ++i) {
        QueuePair& qp = *ends[i]->connections[ends[1 - i]->number];
        QpAttributes attributes;
        attributes.state = QpState::init;
        attributes.access = kRemoteWrite;
        must(qp.modify(attributes, kQpState | kQpAccess));
        attributes.state = QpState::ready_to_receive;
        attributes.path.remote = ends[1 - i]->rail().address();
        attributes.remote_qp = ends[1 - i]->connections[ends[i]->number]->number();
        must(qp.modify(attributes, kQpState | kQpPath | kQpRemote | kQpReceiveLimits));
        attributes.state = QpState::ready_to_send;
        must(qp.modify(attributes, kQpState | kQpRetry | kQpSendPsn | kQpSendLimits));
    }
}

// ---------------------------------------------------------------------------------------------------
// Sending

// ((i + j) mod n): to different ranks by different queue pairs, from different ranks to different ones.
void ChannelRanks::post_shared(Node& from, Node& to, const Wire& message, std::uint32_t queue) {
    const Gather gather{const_cast<Wire*>(&message), sizeof message, 0};
    SendWork work;
    work.opcode = Opcode::send;
    work.flags = kInline;
    work.gather = &gather;
    work.gather_count = 1;
    work.address_handle = from.handles[to.number].get();
    work.remote_qp = to.targets[queue]->number();
    work.remote_access_key = kKey;
    must(from.initiators[queue]->post_send(work));
}

void ChannelRanks::post_ring(Node& from, Node& to, Link& link, Wire message) {
    message.stamp = link.written / kEntries + 1;
    const Gather gather{&message, sizeof message, 0};
    SendWork work;
    work.opcode = Opcode::write;
    work.flags = kInline | kPublish;
    work.gather = &gather;
    work.gather_count = 1;
    work.remote_address = reinterpret_cast<std::uintptr_t>(link.ring->address()) +
                          link.written++ % kEntries * sizeof message;
    work.remote_key = link.ring->remote_key();
    if (link.kind == Kind::connected_ring) {
        must(from.connections[to.number]->post_send(work));
        return;
    }
    const std::uint32_t queue = (from.number + to.number) % options_.dc_pool;
    work.address_handle = from.handles[to.number].get();
    work.remote_qp = to.targets[queue]->number();
    work.remote_access_key = kKey;
    must(from.initiators[queue]->post_send(work));
}

// False: there is no room in the ring.
bool ChannelRanks::send(Node& from, std::uint32_t number, std::uint32_t type,
                        std::uint32_t argument) {
    Node& to = *nodes_[number];
    Link& link = to.in[from.number];
    if (link.kind != Kind::shared_sendrecv && link.written == link.allowed) {
        return false;
    }
    Wire message;
    message.type = type;
    message.from = from.number;
    message.sequence = link.next_send++;
    message.argument = argument;
    ++totals_.messages[static_cast<std::size_t>(link.kind)];
    if (link.kind == Kind::shared_sendrecv) {
        post_shared(from, to, message, (from.number + number) % options_.dc_pool);
    } else {
        post_ring(from, to, link, message);
    }
    return true;
}

// ---------------------------------------------------------------------------------------------------
// Receiving

void ChannelRanks::deliver(Node& at, const Wire& message) {
    ++at.in[message.from].next_receive;
    if (message.type == data) {
        ++at.received;
        return;
    }
    if (at.notices.size() <= message.argument) {
        at.notices.resize(message.argument + 1);
    }
    at.notices[message.argument] = true;
}

void ChannelRanks::take(Node& at, const Wire& message) {
    Link& in = at.in[message.from];
    if (message.sequence != in.next_receive) {
        in.early.emplace(message.sequence, message);
        return;
    }
    deliver(at, message);
    while (!in.early.empty() && in.early.begin()->first == in.next_receive) {
        deliver(at, in.early.begin()->second);
        in.early.erase(in.early.begin());
    }
    if (options_.method != Method::aqps && in.granted == Kind::shared_sendrecv) { // at the first
        want(at, message.from,
             options_.method == Method::rc_on_demand ? Kind::connected_ring : Kind::shared_ring);
    }
}

// Once per s messages.
void ChannelRanks::consumed(Node& at, Link& in) {
    if (in.read - in.told < kEntries) {
        return;
    }
    in.told = in.read;
    Wire message;
    message.type = credit;
    message.from = at.number;
    message.argument = static_cast<std::uint32_t>(in.read);
    ++totals_.credits;
    post_shared(at, *nodes_[in.source], message, (at.number + in.source) % options_.dc_pool);
}

// The next message of a ring, if there is one.
bool ChannelRanks::poll_ring(Node& node, Link& in) {
    Wire message;
    std::memcpy(&message,
                static_cast<std::byte*>(in.ring->address()) + in.read % kEntries * sizeof message,
                sizeof message);
    if (message.stamp != in.read / kEntries + 1) {
        node.process->charge(options_.machine.poll_empty);
        return false;
    }
    ++in.read;
    take(node, message);
    consumed(node, in);
    return true;
}

// A pass over the completion queue, the rings with traffic, and one of the others. True: there was something.
bool ChannelRanks::progress(Node& node) {
    bool any = false;
    std::array<WorkCompletion, 16> done;
    const std::size_t count = node.receives->poll(done);
    for (std::size_t i = 0; i < count; ++i) {
        if (done[i].status != WorkStatus::success) {
            study_.fail(std::string("a receive failed: ") + work_status_text(done[i].status));
        }
        Wire message;
        std::byte* from =
            static_cast<std::byte*>(node.buffers->address()) + done[i].wr_id * sizeof message;
        std::memcpy(&message, from, sizeof message);
        const Gather room{from, sizeof message, node.buffers->local_key()};
        must(node.srq->post({done[i].wr_id, &room, 1}));
        switch (message.type) {
        case credit:
            nodes_[message.from]->in[node.number].allowed = std::max<std::uint64_t>(
                nodes_[message.from]->in[node.number].allowed, message.argument + kEntries);
            break;
        case offer: on_offer(node, message); break;
        case switched: node.in[message.from].wanted = false; break;
        default: take(node, message);
        }
        any = true;
    }
    for (std::size_t i = 0; i < node.rings.size(); ++i) {
        Link& in = node.in[node.rings[i]];
        if (poll_ring(node, in)) {
            in.idle = 0;
            any = true;
        } else if (++in.idle == kIdlePolls) {
            node.cold.push_back(node.rings[i]);
            node.rings[i--] = node.rings.back();
            node.rings.pop_back();
        }
    }
    if (!node.cold.empty()) {
        node.next_cold = node.next_cold + 1 < node.cold.size() ? node.next_cold + 1 : 0;
        const std::uint32_t source = node.cold[node.next_cold];
        if (poll_ring(node, node.in[source])) {
            node.in[source].idle = 0;
            node.rings.push_back(source);
            std::erase(node.cold, source);
            any = true;
        }
    }
    if (node.sends->poll(done) > 0) {
        study_.fail(std::string("a send failed: ") + work_status_text(done[0].status));
    }
    return any;
}

// ---------------------------------------------------------------------------------------------------
// Switching

// The receiver offers a ring; the sender answers when it has switched. The paper's costs of the exchange that are
// not messages are the processor's: half at each side.
void ChannelRanks::want(Node& at, std::uint32_t source, Kind kind) {
    Link& in = at.in[source];
    if (in.wanted || in.granted == kind || source == at.number) {
        return;
    }
    in.wanted = true;
    in.granted = kind;
    if (in.ring == nullptr && kind != Kind::shared_sendrecv) {
        must(at.rail().allocate(kEntries * sizeof(Wire), kLocalWrite | kRemoteWrite, in.ring));
        at.rings.push_back(source);
    }
    const double cost = kind == Kind::connected_ring ? options_.costs.establish
                        : kind == Kind::shared_ring  ? options_.costs.establish_shared
                                                     : 0;
    at.process->charge(Nanoseconds{static_cast<std::int64_t>(cost / 2)});
    Wire message;
    message.type = offer;
    message.from = at.number;
    message.argument = static_cast<std::uint32_t>(kind);
    post_shared(at, *nodes_[source], message, (at.number + source) % options_.dc_pool);
}

// A receiver's own mapping keeps h; a sender has as many that it writes over. Connections that are not in use any
// more stay, pi at most.
bool ChannelRanks::may_connect(const Node& sender, const Node& receiver) const {
    const bool there = sender.connections[receiver.number] != nullptr;
    return options_.method != Method::aqps ||
           (sender.writing < options_.limits.connections &&
            (there || (sender.connected < kPool && receiver.connected < kPool)));
}

void ChannelRanks::on_offer(Node& at, const Wire& message) {
    Node& receiver = *nodes_[message.from];
    Link& link = receiver.in[at.number];
    auto kind = static_cast<Kind>(message.argument);
    if (kind == Kind::connected_ring && !may_connect(at, receiver)) {
        kind = link.granted = Kind::shared_ring; // the next best
        link.refused = true;
    }
    if (kind == Kind::connected_ring && at.connections[message.from] == nullptr) {
        connect(at, receiver);
    }
    const double cost = kind == Kind::connected_ring ? options_.costs.establish
                        : kind == Kind::shared_ring  ? options_.costs.establish_shared
                                                     : 0;
    at.process->charge(Nanoseconds{static_cast<std::int64_t>(cost / 2)});
    at.writing += kind == Kind::connected_ring ? 1 : 0;
    at.writing -= link.kind == Kind::connected_ring ? 1 : 0;
    link.kind = kind;
    ++totals_.switches[static_cast<std::size_t>(kind)];
    Wire answer;
    answer.type = switched;
    answer.from = at.number;
    post_shared(at, receiver, answer, (at.number + message.from) % options_.dc_pool);
}

// The agent of a receiver, beside its program: it has a processor of its own (3.4), so only switching costs. Who was
// silent keeps what it has: it costs nothing until it is used again.
void ChannelRanks::select(Node& at) {
    std::vector<SourceCount> counts;
    std::vector<std::uint32_t> talking;
    for (Link& in : at.in) {
        const std::uint32_t news = in.next_receive - in.counted;
        in.counted = in.next_receive;
        if (news > 0) {
            counts.push_back({in.source, static_cast<double>(news)});
            talking.push_back(in.source);
        }
    }
    ++totals_.selections;
    const bool changed =
        at.selector.tick(std::move(counts), options_.limits) != Selector::Step::none;
    const Mapping& mapping = at.selector.mapping();
    for (const std::uint32_t source : talking) {
        const auto in_list = [source](const std::vector<std::uint64_t>& list) {
            return std::binary_search(list.begin(), list.end(), source);
        };
        Link& in = at.in[source];
        in.refused = in.refused && !changed;
        const bool connects = in_list(mapping.connected) && !in.refused;
        const bool ring = connects || in.refused || in_list(mapping.shared);
        want(at, source,
             connects ? Kind::connected_ring
             : ring   ? Kind::shared_ring
                      : Kind::shared_sendrecv);
    }
}

// ---------------------------------------------------------------------------------------------------
// Programs

bool ChannelRanks::act(Node& node) {
    if (node.acts == nullptr || node.at == node.acts->size()) {
        return false;
    }
    const Act& act = (*node.acts)[node.at];
    bool over = false;
    switch (act.what) {
    case Act::What::send: over = send(node, act.peer, data, 0); break;
    case Act::What::notify: over = send(node, act.peer, notice, act.number); break;
    case Act::What::await_data: over = node.received >= act.number; break;
    case Act::What::await_notice:
        over = act.number < node.notices.size() && node.notices[act.number];
        break;
    }
    if (over && ++node.at == node.acts->size()) {
        --busy_;
    }
    return over;
}

// A few sends, a look at what has come, and so on.
void ChannelRanks::turn(Node& node) {
    constexpr int kSends = 8;
    constexpr int kPasses = 16;
    node.in_turn = true;
    node.process->begin_turn();
    if (options_.method == Method::aqps && node.process->now() >= node.select_at) {
        node.select_at = node.process->now() + options_.period;
        select(node);
    }
    std::size_t vain = 0; // until each idle ring has been looked at
    bool any = true;
    for (int pass = 0; pass < kPasses && vain <= node.cold.size(); ++pass) {
        node.again = false;
        any = progress(node);
        for (int i = 0; i < kSends && act(node); ++i) {
            any = true;
        }
        vain = any || node.again ? 0 : vain + 1;
    }
    any = vain <= node.cold.size();
    node.in_turn = false;
    if (any || node.again || node.process->unseen() > 0) {
        world_.simulator().schedule(node, node.process->now());
    }
}

Nanoseconds ChannelRanks::run(const Acts& acts) {
    const Nanoseconds begin = world_.simulator().now();
    busy_ = 0;
    for (std::uint32_t i = 0; i < options_.ranks; ++i) {
        Node& node = *nodes_[i];
        node.acts = &acts[i];
        node.at = 0;
        node.received = 0;
        busy_ += acts[i].empty() ? 0 : 1;
        node.on_activity();
    }
    while (busy_ > 0) {
        if (world_.simulator().idle()) {
            study_.fail("the ranks wait for each other");
        }
        world_.simulator().step();
    }
    return world_.simulator().now() - begin;
}

ChannelRanks::Totals ChannelRanks::totals() const { return totals_; }

namespace {

// By dissemination: log2 N rounds, a message each.
void barrier(Acts& acts, std::uint32_t& notices) {
    const auto ranks = static_cast<std::uint32_t>(acts.size());
    for (std::uint32_t distance = 1; distance < ranks; distance *= 2, ++notices) {
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            acts[rank].push_back({Act::What::notify, (rank + distance) % ranks, notices});
            acts[rank].push_back({Act::What::await_notice, 0, notices});
        }
    }
}

constexpr std::uint32_t kBarrierEvery = 128; // messages received

} // namespace

Acts one_to_all(std::uint32_t ranks, std::uint64_t messages, std::uint32_t& notices) {
    Acts acts(ranks);
    std::uint64_t sent = 0;
    std::uint32_t rounds = 0;
    while (sent < messages) {
        for (std::uint32_t to = 1; to < ranks; ++to, ++sent) {
            acts[0].push_back({Act::What::send, to, 0});
        }
        ++rounds;
        if (rounds % kBarrierEvery == 0 || sent >= messages) {
            for (std::uint32_t to = 1; to < ranks; ++to) {
                acts[to].push_back({Act::What::await_data, 0, rounds});
            }
            barrier(acts, notices);
        }
    }
    return acts;
}

Acts all_to_one(std::uint32_t ranks, std::uint64_t messages, std::uint32_t& notices) {
    Acts acts(ranks);
    std::uint64_t sent = 0;
    std::uint64_t told = 0;
    while (sent < messages) {
        for (std::uint32_t from = 1; from < ranks; ++from, ++sent) {
            acts[from].push_back({Act::What::send, 0, 0});
        }
        if (sent - told > kBarrierEvery || sent >= messages) {
            told = sent;
            acts[0].push_back({Act::What::await_data, 0, static_cast<std::uint32_t>(sent)});
            barrier(acts, notices);
        }
    }
    return acts;
}

} // namespace adaptib::study
