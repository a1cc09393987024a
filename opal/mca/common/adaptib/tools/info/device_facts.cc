// SPDX-License-Identifier: BSD-3-Clause
#include "tools/info/device_facts.h"

#include "adaptib_config.h"

#if ADAPTIB_HAVE_VERBS
#include "fabric/verbs/device.h"
#include "fabric/verbs/port.h"

namespace adaptib {

namespace {

using verbs::Calls;
using verbs::Device;
using verbs::DeviceList;
using verbs::Port;

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
