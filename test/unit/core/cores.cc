// SPDX-License-Identifier: BSD-3-Clause
// Several cores in one process (cores.h).
#include "cores.h"

#include <algorithm>

#include "protocol/ring_sends.h"

namespace adaptib::test {

namespace {

std::unique_ptr<Fabric> open_shm(const Options& options, const Parameters& parameters,
                                 std::uint64_t host, std::uint32_t user_space, const Clock& clock) {
    ShmOptions shm;
    shm.rails = static_cast<std::uint32_t>(parameters.shm_rails);
    shm.queue_bytes = parameters.shm_queue_bytes;
    shm.segment_max = parameters.shm_segment_max;
    shm.single_copy = std::string(parameters.shm_single_copy) == "none"
                          ? ShmOptions::SingleCopy::none
                          : ShmOptions::SingleCopy::automatic;
    shm.clock = &clock;
    shm.host = host;
    shm.user_space = user_space;
    shm.descriptor_server = user_space == 0;
    shm.copy_costs = options.copy_costs;
    std::unique_ptr<Fabric> fabric;
    std::string text;
    if (!open_shm_fabric(shm, fabric, text).ok()) {
        ADD_FAILURE() << text;
        std::abort();
    }
    return fabric;
}

} // namespace

Cores::Cores(std::size_t nodes, Options options) {
    for (std::size_t i = 0; i < nodes; ++i) {
        nodes_.push_back(std::make_unique<Node>(options.seed * 1000 + i));
        Node& node = *nodes_.back();
        Parameters parameters = options.parameters;
        if (options.parameters_of) {
            options.parameters_of(i, parameters);
        }
        std::vector<std::unique_ptr<Fabric>> fabrics;
        const std::uint64_t host = options.hosts.empty() ? 0 : options.hosts[i] + 1;
        if (host > 0) {
            const std::uint32_t space = options.user_spaces.empty() ? 0 : options.user_spaces[i];
            fabrics.push_back(open_shm(options, parameters, host, space, clock));
        }
        if (host == 0 || options.far) {
            fabrics.push_back(open_shm(options, parameters, 0, 0, clock));
            if (options.wrap) {
                fabrics.back() = options.wrap(i, std::move(fabrics.back()), clock);
            }
        }
        Core::Environment environment;
        const std::uint64_t self = options.names.empty() ? name(i) : options.names[i];
        environment.self = self;
        environment.local_rank = static_cast<std::uint32_t>(i);
        environment.host = "testhost";
        environment.left_out = "There is no other fabric.";
        environment.bootstrap = &table_;
        environment.clock = &clock;
        environment.timed = options.timed;
        environment.yields = options.yields;
        environment.tight_ticks = options.tight_ticks;
        environment.random = &node.random;
        environment.watch_memory = [] { return true; };
        node.counters.trace = options.traces.empty() ? nullptr : options.traces[i];
        environment.counters = &node.counters;
        if (!options.wire_versions.empty()) {
            environment.wire_version = options.wire_versions[i];
        }
        environment.message = [&node](Severity, const std::string& message) {
            node.messages.push_back(message);
        };
        std::string text;
        const Status created =
            Core::create(parameters, environment, std::move(fabrics), node.core, text);
        if (!created.ok()) {
            ADD_FAILURE() << text;
            std::abort();
        }
        table_.blobs[self] = node.core->address();
    }
}

Cores::~Cores() = default;

Peer* Cores::peer(std::size_t from, std::size_t to) {
    Peer* peer = nullptr;
    EXPECT_TRUE(core(from).peers().get(name(to), peer).ok());
    return peer;
}

Status Cores::send(std::size_t from, std::size_t to, std::int32_t tag, const Data& data,
                   TestRequest& request, bool synchronous, std::uint32_t context) {
    Peer* peer = nullptr;
    if (Status status = core(from).peers().get(name(to), peer); !status.ok()) {
        return status;
    }
    bool complete = false;
    const Envelope envelope{context, static_cast<std::int32_t>(from), tag};
    const Status status = core(from).protocol().sends().send(
        peer, envelope, data, synchronous, OpKind::blocking, request.user, complete);
    core(from).protocol().ask_for_connections();
    request.done = request.done || complete;
    return status;
}

bool Cores::try_send(std::size_t from, std::size_t to, std::int32_t tag, const Data& data) {
    const Envelope envelope{0, static_cast<std::int32_t>(from), tag};
    return RingSends::try_send(*peer(from, to), envelope, data);
}

Status Cores::receive(std::size_t at, std::int32_t source, std::int32_t tag, const Data& data,
                      TestRequest& request, std::uint32_t context) {
    bool complete = false;
    const Status status = core(at).protocol().receives().receive({context, source, tag}, data,
                                                                 request.user, complete);
    request.done = request.done || complete;
    return status;
}

void Cores::progress(std::size_t node, bool again) {
    core(node).progress(again);
    CompletedList& completed = core(node).protocol().completed();
    while (!completed.empty()) {
        UserRequest* user = completed.pop();
        user->complete(user);
    }
}

void Cores::progress() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        progress(i);
    }
}

bool Cores::run(const std::function<bool()>& condition) {
    for (int pass = 0; pass < 200000; ++pass) {
        if (condition()) {
            return true;
        }
        progress();
    }
    return false;
}

bool Cores::run(const std::vector<TestRequest*>& requests) {
    return run([&] {
        return std::all_of(requests.begin(), requests.end(),
                           [](const TestRequest* request) { return request->done; });
    });
}

std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed) {
    Random random(seed);
    std::vector<std::byte> buffer(bytes);
    for (std::byte& byte : buffer) {
        byte = static_cast<std::byte>(random.next() >> 56);
    }
    return buffer;
}

Data Strided::data() {
    return {nullptr, memory.size() / stride * element, &Strided::pack, &Strided::unpack, this};
}

int Strided::pack(void* context, std::size_t offset, void* to, std::size_t* length) {
    auto& self = *static_cast<Strided*>(context);
    const std::size_t total = self.memory.size() / self.stride * self.element;
    std::size_t end = std::min(offset + *length, total);
    if (end != total) {
        end -= end % self.element; // whole elements only
    }
    if (end <= offset) {
        *length = 0;
        return 0;
    }
    for (std::size_t i = offset; i < end; ++i) {
        static_cast<std::byte*>(to)[i - offset] = self.at(i);
    }
    *length = end - offset;
    return 0;
}

int Strided::unpack(void* context, std::size_t offset, const void* from, std::size_t* length) {
    auto& self = *static_cast<Strided*>(context);
    for (std::size_t i = 0; i < *length; ++i) {
        self.at(offset + i) = static_cast<const std::byte*>(from)[i];
    }
    return 0;
}

void exchange(Cores& world, std::size_t bytes, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        for (std::size_t from : {std::size_t{0}, std::size_t{1}}) {
            std::vector<std::byte> sent = pattern(bytes, static_cast<std::uint64_t>(i));
            std::vector<std::byte> got(bytes);
            TestRequest send;
            TestRequest receive;
            ASSERT_TRUE(world.send(from, 1 - from, 1, contiguous(sent), send).ok());
            ASSERT_TRUE(
                world
                    .receive(1 - from, static_cast<std::int32_t>(from), 1, contiguous(got), receive)
                    .ok());
            ASSERT_TRUE(world.run({&send, &receive}));
            EXPECT_EQ(got, sent);
        }
    }
}

} // namespace adaptib::test
