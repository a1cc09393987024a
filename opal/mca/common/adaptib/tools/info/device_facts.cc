// SPDX-License-Identifier: BSD-3-Clause
#include "tools/info/device_facts.h"

#include "adaptib_config.h"

namespace adaptib {

std::vector<std::string> shortcomings(const RailInfo& info) {
    constexpr Bytes kUsualMtu = 2048;
    constexpr std::uint32_t kPieces = 3; // of a message that is sent from where it lies
    constexpr std::uint32_t kFewQueuePairs = 2048;
    constexpr std::uint32_t kFewReads = 4;
    std::vector<std::string> out;
    const auto add = [&out](bool lacks, const std::string& text) {
        if (lacks) {
            out.push_back(text);
        }
    };
    add(info.inline_bytes == 0,
        "no inline data: the device fetches each short message from memory, "
        "which adds to its latency");
    add(!info.has(Capability::atomic64),
        "no atomics: the target's process executes them, while it is in calls of MPI");
    add(!info.has(Capability::srq),
        "no shared receive queues, and so no DC queue pairs, of which peers share a few");
    add(!info.places_in_order,
        "does not say that it places the packets of a write in order: messages of more than " +
            std::to_string(info.datagram_bytes) +
            " bytes do not go into its rings, and take longer (ring_in_order)");
    add(info.datagram_bytes < kUsualMtu,
        "MTU " + std::to_string(info.datagram_bytes) +
            ": more packets for each message, and datagrams of at most that; on Ethernet, raise "
            "the interface's MTU (4200) if the switches carry it");
    add(info.max_gather < kPieces,
        "requests of " + std::to_string(info.max_gather) +
            " pieces of memory: small messages are always copied (frequent_buffers has no effect)");
    add(info.max_queue_pairs > 0 && info.max_queue_pairs < kFewQueuePairs,
        std::to_string(info.max_queue_pairs) +
            " queue pairs for all processes of the host: peers beyond that go without a "
            "connection, by datagrams");
    add(info.max_reads < kFewReads,
        std::to_string(info.max_reads) +
            " reads at a time: long messages are slow with rendezvous = get");
    return out;
}

} // namespace adaptib

#if ADAPTIB_HAVE_VERBS
#include <map>
#include <memory>

#include "fabric/verbs/device.h"
#include "fabric/verbs/port.h"

namespace adaptib {

namespace {

using verbs::Calls;
using verbs::Device;
using verbs::DeviceList;
using verbs::Port;

std::string joined(const std::vector<std::string>& texts) {
    std::string out;
    for (const std::string& text : texts) {
        out += (out.empty() ? "" : "; ") + text;
    }
    return out;
}

std::vector<std::string> gids_of(const Device& device, const Port& port) {
    std::vector<std::string> out;
    for (const ibv_gid_entry& entry : verbs::read_gids(device, port)) {
        out.push_back(std::to_string(entry.gid_index) + " " + verbs::gid_type_text(entry) + " " +
                      verbs::gid_address_text(entry.gid));
    }
    return out;
}

std::vector<std::string> partitions_of(const Device& device, const Port& port) {
    std::vector<std::string> out;
    int error = 0;
    for (const verbs::Partition& entry : verbs::read_pkeys(device, port, error)) {
        out.push_back(verbs::pkey_text(entry.pkey) +
                      (verbs::is_full_member(entry.pkey) ? " full" : " limited"));
    }
    return out;
}

PortFacts read_port_facts(const Device& device, const DeviceList& list, int number,
                          const VerbsOptions& options) {
    PortFacts facts;
    facts.name = device.name() + ":" + std::to_string(number);
    Port port;
    port.number = static_cast<std::uint8_t>(number);
    if (device.calls().query_port(device.context(), port.number, &port.attributes) != 0) {
        facts.why_not = "it does not report its state";
        return facts;
    }
    facts.active = port.active();
    facts.link_layer = port.ethernet() ? "Ethernet" : "InfiniBand";
    facts.rate = verbs::port_rate(port.attributes).value;
    facts.mtu = static_cast<std::uint32_t>(
        verbs::mtu_bytes(static_cast<std::uint32_t>(port.attributes.active_mtu)));
    facts.lid = port.attributes.lid;
    facts.paths = port.ethernet() ? 1 : 1u << port.attributes.lmc;
    facts.gids = gids_of(device, port);
    facts.partitions = partitions_of(device, port);
    std::string why;
    Port usable;
    if (!verbs::port_wanted(list, device.name(), number)) {
        facts.why_not = "if_include or if_exclude leaves it out";
    } else if (!verbs::read_port(device, port.number, options, usable, why).ok()) {
        facts.why_not = "it " + why;
    } else if (!facts.active) {
        facts.why_not = "it is down";
    } else {
        facts.used = true;
    }
    return facts;
}

// Opens the devices as a process of a job would: only that shows what a port really gives.
void try_ports(const VerbsOptions& options, std::vector<DeviceFacts>& devices) {
    std::unique_ptr<Fabric> fabric;
    std::string error;
    std::map<std::string, const RailInfo*> rails;
    if (open_verbs_fabric(options, fabric, error).ok()) {
        for (const auto& rail : fabric->rails()) {
            rails[rail->info().name] = &rail->info();
        }
    }
    for (DeviceFacts& device : devices) {
        for (PortFacts& port : device.ports) {
            const auto rail = rails.find(port.name);
            if (port.used && rail == rails.end()) {
                port.used = false;
                port.why_not = fabric == nullptr ? error : joined(fabric->notices());
            } else if (port.used) {
                port.notes = shortcomings(*rail->second);
            }
        }
    }
}

DeviceFacts read_device(const Calls& calls, const DeviceList& list, ibv_device* device,
                        const VerbsOptions& options) {
    DeviceFacts facts;
    facts.name = calls.get_device_name(device);
    std::unique_ptr<Device> opened;
    if (!Device::open(calls, nullptr, device, list.distance(device), opened, facts.problem).ok()) {
        return facts;
    }
    facts.problem.clear();
    facts.numa_node = opened->numa_node();
    for (int number = 1; number <= opened->limits().phys_port_cnt; ++number) {
        facts.ports.push_back(read_port_facts(*opened, list, number, options));
    }
    return facts;
}

} // namespace

std::vector<DeviceFacts> read_devices(const VerbsOptions& options, std::string& problem) {
    const Calls& calls = options.calls != nullptr ? *options.calls : verbs::library_calls();
    std::vector<DeviceFacts> out;
    DeviceList list(calls);
    std::vector<ibv_device*> chosen;
    std::vector<std::string> notices;
    problem.clear();
    if (!list.read(problem).ok()) {
        return out;
    }
    if (list.empty()) {
        problem = "this machine has no RDMA device";
        return out;
    }
    if (list.choose(options, chosen, notices, problem).ok()) {
        problem = notices.empty() ? "" : notices.front();
    }
    for (ibv_device* device : list.devices()) {
        out.push_back(read_device(calls, list, device, options));
    }
    try_ports(options, out);
    return out;
}

} // namespace adaptib

#else

namespace adaptib {

std::vector<DeviceFacts> read_devices(const VerbsOptions&, std::string& problem) {
    problem = "this adaptib was built without libibverbs (Debian package: libibverbs-dev)";
    return {};
}

} // namespace adaptib

#endif
