// SPDX-License-Identifier: BSD-3-Clause
#include "stats/process_report.h"

#include <cstring>

#include "adaptib_config.h"
#include "base/json_writer.h"
#include "base/parameters.h"
#include "base/process_name.h"
#include "stats/counters.h"

namespace adaptib {

namespace {

constexpr std::uint32_t kMagic = 0x61525031;

// Precedes the host's name and the values.
struct Head {
    std::uint32_t magic;
    std::uint16_t host_bytes;
    std::uint16_t values;
    std::uint64_t name;
};

const char* kind_text(opal_common_adaptib_counter_class_t kind) {
    return kind == OPAL_COMMON_ADAPTIB_COUNTER ? "counter"
           : kind == OPAL_COMMON_ADAPTIB_LEVEL ? "level"
                                               : "value";
}

void write_counters(JsonWriter& json, const ProcessReport& report) {
    json.begin_object("counters");
    const auto table = counter_table();
    for (std::size_t i = 0; i < table.size() && i < report.values.size(); ++i) {
        json.begin_object(table[i].name);
        json.number("value", report.values[i]);
        json.text("unit", table[i].unit);
        json.text("kind", kind_text(table[i].kind));
        json.number("level", table[i].level);
        json.end_object();
    }
    json.end_object();
}

// The names are those of the counters, of which the numbers are parts.
void write_peer(JsonWriter& json, const PeerTraffic& peer) {
    json.begin_object();
    json.number("job", job_of(peer.process));
    json.number("rank", rank_of(peer.process));
    json.text("host", peer.host);
    json.text("fabric", peer.fabric);
    json.number("ring_sent", peer.ring.number);
    json.number("ring_sent_bytes", peer.ring.bytes);
    json.number("datagram_sent", peer.datagrams.number);
    json.number("datagram_sent_bytes", peer.datagrams.bytes);
    json.number("rdma_read", peer.rma.reads.number);
    json.number("rdma_read_bytes", peer.rma.reads.bytes);
    json.number("rdma_write", peer.rma.writes.number);
    json.number("rdma_write_bytes", peer.rma.writes.bytes);
    json.number("rdma_atomic", peer.rma.atomics);
    json.end_object();
}

} // namespace

ProcessReport report_of_process(std::uint64_t name, const std::string& host) {
    ProcessReport out{name, host, {}, {}, {}};
    for (const auto& row : counter_table()) {
        out.values.push_back(process_value(row));
    }
    return out;
}

std::vector<std::byte> encode_report(const ProcessReport& report) {
    const Head head{kMagic, static_cast<std::uint16_t>(report.host.size()),
                    static_cast<std::uint16_t>(report.values.size()), report.name};
    const std::size_t values = report.values.size() * sizeof(std::uint64_t);
    std::vector<std::byte> out(sizeof head + head.host_bytes + values);
    std::byte* to = out.data();
    std::memcpy(to, &head, sizeof head);
    to += sizeof head;
    std::memcpy(to, report.host.data(), head.host_bytes);
    to += head.host_bytes;
    std::memcpy(to, report.values.data(), values);
    return out;
}

bool decode_report(std::span<const std::byte> bytes, ProcessReport& out) {
    Head head{};
    if (bytes.size() < sizeof head) {
        return false;
    }
    std::memcpy(&head, bytes.data(), sizeof head);
    const std::size_t values = std::size_t{head.values} * sizeof(std::uint64_t);
    if (head.magic != kMagic || head.values != counter_table().size() ||
        bytes.size() != sizeof head + head.host_bytes + values) {
        return false;
    }
    const std::byte* const host = bytes.data() + sizeof head;
    out.name = head.name;
    out.host.assign(reinterpret_cast<const char*>(host), head.host_bytes);
    out.values.resize(head.values);
    std::memcpy(out.values.data(), host + head.host_bytes, values);
    return true;
}

std::string report_json(const ProcessReport& report, std::span<const std::string> texts) {
    JsonWriter json;
    json.begin_object();
    json.text("schema", "adaptib-report");
    json.number("version", 1);
    json.text("adaptib", ADAPTIB_VERSION);
    json.number("job", job_of(report.name));
    json.number("rank", rank_of(report.name));
    json.text("host", report.host);
    json.begin_array("endpoints");
    for (const std::string& text : texts) {
        json.text("", text);
    }
    json.end_array();
    json.begin_array("peers");
    for (const PeerTraffic& peer : report.peers) {
        write_peer(json, peer);
    }
    json.end_array();
    json.begin_array("history");
    for (const EndpointHistory& history : report.histories) {
        write_history(json, history);
    }
    json.end_array();
    write_counters(json, report);
    json.end_object();
    return json.result();
}

} // namespace adaptib
