// SPDX-License-Identifier: BSD-3-Clause
// Reads a topology (simulator/network/topology_file.h): first all blocks, then the two ends of each
// cable.
#include "simulator/network/topology_file.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "simulator/network/text_file.h"

namespace adaptib::sim {

namespace {

constexpr std::uint32_t kMostPorts = 254; // of a node: InfiniBand, vol. 1, 14.2.5.4

std::string quote(std::string_view text) { return '"' + std::string(text) + '"'; }

// Data rate of a lane: the signaling rate less the encoding's share (8b/10b up to QDR, then
// 64b/66b; HDR and later are named by their data rate). InfiniBand, vol. 2, 5.
BytesPerSecond lane_rate(std::string_view speed) {
    static constexpr std::pair<std::string_view, std::uint64_t> kSpeeds[] = {
        {"SDR", 250'000'000},     {"DDR", 500'000'000},     {"QDR", 1'000'000'000},
        {"FDR10", 1'250'000'000}, {"FDR", 1'704'545'454},   {"EDR", 3'125'000'000},
        {"HDR", 6'250'000'000},   {"NDR", 12'500'000'000u}, {"XDR", 25'000'000'000u},
    };
    for (const auto& [name, rate] : kSpeeds) {
        if (name == speed) {
            return {rate};
        }
    }
    return {0};
}

// Rate of a comment "... 4xQDR"; 0 if the comment ends with something else.
BytesPerSecond rate_in(std::string_view comment) {
    comment = comment.substr(0, comment.find_last_not_of(" \t") + 1);
    const std::size_t space = comment.find_last_of(" \t");
    Scanner word(comment.substr(space == std::string_view::npos ? 0 : space + 1));
    std::uint64_t lanes = 0;
    if (!word.number(12, lanes) || !word.accept("x")) {
        return {0};
    }
    return {lanes * lane_rate(word.rest()).value};
}

// Host of an adapter: "node3" of "node3 HCA-1" and "node3 mlx5_1", two words, the second with a
// number after - or _.
std::string host_of(const std::string& name) {
    const std::size_t space = name.find(' ');
    const std::size_t mark = name.find_last_of("-_");
    const bool numbered = space != std::string::npos &&
                          name.find(' ', space + 1) == std::string::npos &&
                          mark != std::string::npos && mark > space && mark + 1 < name.size() &&
                          name.find_first_not_of("0123456789", mark + 1) == std::string::npos;
    return numbered ? name.substr(0, space) : std::string();
}

class Reader {
public:
    Reader(std::string_view text, const std::string& file, const LinkModel& links,
           std::string& error)
        : lines_(text, file), links_(links), error_(error) {}

    bool read() {
        std::string_view line;
        while (lines_.next(line)) {
            if (!read_line(Scanner(line))) {
                return false;
            }
        }
        if (topology_.nodes.empty()) {
            return fail("there is no switch and no adapter in it");
        }
        return plug_all();
    }
    Topology result(std::uint32_t lmc) {
        make_hosts();
        topology_.plug_ports();
        topology_.assign_lids(lmc);
        return std::move(topology_);
    }

private:
    // One end of a cable, as its own block describes it.
    struct End {
        NodeIndex node;
        std::uint32_t port;
        std::uint32_t line;
        std::string_view peer;
        std::uint32_t peer_port;
        BytesPerSecond rate; // 0: not given
    };

    bool fail(const std::string& reason) { return lines_.fail(error_, reason); }

    bool read_line(Scanner line) {
        line.skip_spaces();
        if (line.at_end() || line.accept("#")) {
            return true;
        }
        if (line.accept("[")) {
            return read_end(line);
        }
        if (line.accept("Switch")) {
            return read_node(line, Node::Kind::within_switch);
        }
        if (line.accept("Ca") || line.accept("Hca")) {
            return read_node(line, Node::Kind::adapter);
        }
        return read_setting(line);
    }

    // vendid=..., switchguid=0x200001(200001), caguid=0x100003
    bool read_setting(Scanner line) {
        const std::string_view text = line.rest();
        const std::size_t sign = text.find('=');
        if (sign == 0 || text.find_first_not_of("abcdefghijklmnopqrstuvwxyz") != sign) {
            return fail("neither a switch or adapter nor a port: " + quote(text.substr(0, 40)));
        }
        const std::string_view name = text.substr(0, sign);
        line.accept(text.substr(0, sign + 1));
        if ((name == "switchguid" || name == "caguid" || name == "hcaguid") &&
            (!line.hexadecimal(guid_) || guid_ == 0)) {
            return fail("a GUID is expected behind " + std::string(name) + "=");
        }
        return true;
    }

    // Switch  8 "S-0000000000200001"      # "leaf1" ...
    bool read_node(Scanner line, Node::Kind kind) {
        std::uint64_t count = 0;
        std::string_view id;
        line.skip_spaces();
        const bool counted = line.number(kMostPorts, count) && count > 0;
        line.skip_spaces();
        if (!counted || !line.quoted('"', id) || id.empty()) {
            return fail("a number of ports (1 to 254) and a name in quotes are expected");
        }
        line.skip_spaces();
        if (!line.at_end() && !line.accept("#")) {
            return fail("not understood: " + quote(line.rest().substr(0, 40)));
        }
        ports_ += count;
        if (topology_.nodes.size() == kTopologyFileNodes || ports_ > kTopologyFilePorts) {
            return fail("more than " + std::to_string(kTopologyFileNodes) + " nodes or " +
                        std::to_string(kTopologyFilePorts) + " ports");
        }
        const auto index = static_cast<NodeIndex>(topology_.nodes.size());
        const auto [there, added] = by_id_.emplace(id, index);
        if (!added) {
            return fail(quote(id) + " is in line " + std::to_string(node_lines_[there->second]) +
                        " already");
        }
        Node node;
        node.kind = kind;
        node.latency = kind == Node::Kind::within_switch ? links_.switch_latency : Nanoseconds{0};
        node.out.assign(count, kNoIndex);
        if (!name_node(node, line, id, index)) {
            return false;
        }
        ends_by_port_.emplace_back(count, kNoIndex);
        node_lines_.push_back(lines_.number());
        topology_.nodes.push_back(std::move(node));
        return true;
    }

    bool name_node(Node& node, Scanner comment, std::string_view id, NodeIndex index) {
        std::string_view name;
        comment.skip_spaces();
        node.name = comment.quoted('"', name) && !name.empty() ? name : id;
        node.guid = std::exchange(guid_, 0);
        Scanner in_id(id);
        if (node.guid == 0 && id.size() == 18 && (in_id.accept("S-") || in_id.accept("H-"))) {
            in_id.hexadecimal(node.guid);
        }
        const auto [there, added] = by_guid_.emplace(node.guid, index);
        if (!added && node.guid != 0) {
            return fail(quote(id) + " has the GUID of the node in line " +
                        std::to_string(node_lines_[there->second]));
        }
        return true;
    }

    // [1](100004)  "S-0000000000200001"[1](200005)   # ... 4xQDR
    bool read_end(Scanner line) {
        std::uint64_t port = 0;
        std::uint64_t peer_port = 0;
        End end{};
        if (topology_.nodes.empty()) {
            return fail("a port before the first switch or adapter");
        }
        const bool own = line.number(kMostPorts, port) && line.accept("]") && skip_guid(line);
        line.skip_spaces();
        const bool named = own && line.quoted('"', end.peer);
        line.skip_spaces();
        if (!named || !line.accept("[") || !line.number(kMostPorts, peer_port) ||
            !line.accept("]") || !skip_guid(line)) {
            return fail("a port is expected as [port] \"node\"[port]");
        }
        line.skip_spaces();
        if (!line.at_end() && !line.accept("#")) {
            return fail("not understood: " + quote(line.rest().substr(0, 40)));
        }
        std::vector<std::uint32_t>& ends = ends_by_port_.back();
        if (port == 0 || port > ends.size()) {
            return fail("there is no port " + std::to_string(port) + " of " +
                        std::to_string(ends.size()));
        }
        if (ends[port - 1] != kNoIndex) {
            return fail("port " + std::to_string(port) + " is in line " +
                        std::to_string(ends_[ends[port - 1]].line) + " already");
        }
        end.node = static_cast<NodeIndex>(topology_.nodes.size() - 1);
        end.port = static_cast<std::uint32_t>(port);
        end.peer_port = static_cast<std::uint32_t>(peer_port);
        end.line = lines_.number();
        end.rate = rate_in(line.rest());
        ends[port - 1] = static_cast<std::uint32_t>(ends_.size());
        ends_.push_back(end);
        return true;
    }

    static bool skip_guid(Scanner& line) {
        std::uint64_t guid = 0;
        return !line.accept("(") || (line.hexadecimal(guid) && line.accept(")"));
    }

    bool plug_all() {
        for (const End& end : ends_) {
            const auto peer = by_id_.find(end.peer);
            if (peer == by_id_.end()) {
                return lines_.fail_at(end.line, error_, "there is no node " + quote(end.peer));
            }
            if (!plug(end, peer->second)) {
                return false;
            }
        }
        return true;
    }

    bool plug(const End& end, NodeIndex peer) {
        const std::string cable =
            "port " + std::to_string(end.peer_port) + " of " + quote(end.peer);
        const std::vector<std::uint32_t>& there = ends_by_port_[peer];
        if (end.peer_port == 0 || end.peer_port > there.size()) {
            return lines_.fail_at(end.line, error_, "there is no " + cable);
        }
        if (there[end.peer_port - 1] == kNoIndex) {
            return lines_.fail_at(end.line, error_,
                                  "the cable has one end: " + cable + " is not in the file");
        }
        const End& other = ends_[there[end.peer_port - 1]];
        const std::string in_line = " in line " + std::to_string(other.line);
        const auto back = by_id_.find(other.peer);
        if (back == by_id_.end() || back->second != end.node || other.peer_port != end.port) {
            return lines_.fail_at(end.line, error_,
                                  "the cable leads to " + cable + ", which is plugged elsewhere" +
                                      in_line);
        }
        if (&other == &end) {
            return lines_.fail_at(end.line, error_, "the port is plugged into itself");
        }
        if (other.rate != end.rate && other.rate.value != 0 && end.rate.value != 0) {
            return lines_.fail_at(end.line, error_, "the cable has another speed" + in_line);
        }
        if (end.line < other.line) {
            connect(end, other);
        }
        return true;
    }

    void connect(const End& a, const End& b) {
        const auto within = Node::Kind::within_switch;
        const bool switches =
            topology_.nodes[a.node].kind == within && topology_.nodes[b.node].kind == within;
        BytesPerSecond rate = std::max(a.rate, b.rate);
        if (rate.value == 0) {
            rate = switches ? links_.switch_rate : links_.host_rate;
        }
        topology_.connect(a.node, a.port, b.node, b.port, rate, links_.cable);
    }

    void make_hosts() {
        std::map<std::string, std::uint32_t> by_name;
        for (NodeIndex n = 0; n < topology_.nodes.size(); ++n) {
            Node& node = topology_.nodes[n];
            if (node.kind == Node::Kind::within_switch) {
                continue;
            }
            node.host = static_cast<std::uint32_t>(topology_.hosts.size());
            const std::string name = host_of(node.name);
            if (!name.empty()) {
                node.host = by_name.emplace(name, node.host).first->second;
            }
            if (node.host == topology_.hosts.size()) {
                topology_.hosts.emplace_back().name = name.empty() ? node.name : name;
            }
            topology_.hosts[node.host].adapters.push_back(n);
        }
        for (Host& host : topology_.hosts) {
            for (const NodeIndex n : host.adapters) {
                for (std::uint32_t p = 1; p <= topology_.nodes[n].out.size(); ++p) {
                    if (topology_.nodes[n].out[p - 1] != kNoIndex) {
                        host.ports.push_back(static_cast<PortIndex>(topology_.ports.size()));
                        topology_.ports.push_back({.adapter = n, .number = p});
                    }
                }
            }
        }
    }

    Lines lines_;
    const LinkModel& links_;
    std::string& error_;
    Topology topology_;
    std::uint64_t guid_ = 0; // of the next block
    std::uint64_t ports_ = 0;
    std::vector<End> ends_;
    std::vector<std::vector<std::uint32_t>> ends_by_port_; // by node, by port - 1: into ends_
    std::vector<std::uint32_t> node_lines_;
    std::map<std::string_view, NodeIndex> by_id_;
    std::map<std::uint64_t, NodeIndex> by_guid_;
};

} // namespace

bool parse_topology(std::string_view text, const std::string& file, const LinkModel& links,
                    std::uint32_t lmc, Topology& out, std::string& error) {
    Reader reader(text, file, links, error);
    if (!reader.read()) {
        return false;
    }
    out = reader.result(lmc);
    return true;
}

bool read_topology(const std::string& path, const LinkModel& links, std::uint32_t lmc,
                   Topology& out, std::string& error) {
    std::string text;
    return read_text_file(path, kTopologyFileBytes, text, error) &&
           parse_topology(text, path, links, lmc, out, error);
}

} // namespace adaptib::sim
