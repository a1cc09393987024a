// SPDX-License-Identifier: BSD-3-Clause
// Reads OpenSM's tables (simulator/network/opensm_routes.h): the tables, then the LIDs, then checks
// all routes.
#include "simulator/network/opensm_routes.h"

#include <bit>
#include <map>
#include <utility>
#include <vector>

#include "simulator/network/text_file.h"

namespace adaptib::sim {

namespace {

constexpr std::uint64_t kMostPort = 255; // "unreachable" in a forwarding table

class Reader {
public:
    Reader(std::string_view text, const std::string& file, const Topology& topology,
           std::string& error)
        : lines_(text, file), topology_(topology), error_(error),
          header_lines_(topology.nodes.size(), 0), owner_(kMostLid + 1, kNoIndex),
          owner_lines_(kMostLid + 1, 0) {
        for (NodeIndex n = 0; n < topology.nodes.size(); ++n) {
            const Node& node = topology.nodes[n];
            if (node.kind == Node::Kind::within_switch) {
                by_guid_.emplace(node.guid, n);
                const auto [there, added] = by_name_.emplace(node.name, n);
                there->second = added ? n : kNoIndex; // an ambiguous name refers to no switch
            }
        }
        for (PortIndex p = 0; p < topology.ports.size(); ++p) {
            by_link_.emplace(topology.ports[p].link, p);
        }
    }

    bool read() {
        std::string_view line;
        while (lines_.next(line)) {
            if (!read_line(line)) {
                return false;
            }
        }
        if (switch_ != kNoIndex) {
            return fail("the table ends before its last line, \"... lids dumped\"");
        }
        for (NodeIndex n = 0; n < topology_.nodes.size(); ++n) {
            if (topology_.nodes[n].kind == Node::Kind::within_switch && header_lines_[n] == 0) {
                return fail("there is no table of switch " + topology_.nodes[n].name);
            }
        }
        return true;
    }

    // Gives the topology OpenSM's LIDs, then checks all routes.
    bool finish(Topology& topology, Routes& out) {
        topology = topology_;
        for (NodeIndex n = 0; n < topology.nodes.size(); ++n) {
            topology.nodes[n].lid = switch_lids_.contains(n) ? switch_lids_[n] : 0;
        }
        if (!number_ports(topology)) {
            return false;
        }
        topology.index_lids();
        std::string reason;
        NodeIndex at = kNoIndex;
        if (!routes_.check(topology, reason, &at)) {
            return lines_.fail_at(at == kNoIndex ? 1 : header_lines_[at], error_, reason);
        }
        out = std::move(routes_);
        return true;
    }

private:
    bool fail(const std::string& reason) { return lines_.fail(error_, reason); }

    bool read_line(std::string_view text) {
        Scanner line(text);
        line.skip_spaces();
        if (line.at_end() || line.accept("#")) {
            return true;
        }
        if (line.accept("Unicast lids")) {
            return read_header(line);
        }
        if (switch_ == kNoIndex) {
            return fail("outside of a table; \"Unicast lids [...] of switch ...\" is expected");
        }
        if (text.ends_with("lids dumped")) {
            switch_ = kNoIndex;
            return true;
        }
        return read_entry(line);
    }

    // " [0-671] of switch Lid 8 guid 0x0000000000200000 ('leaf0'):"
    bool read_header(Scanner line) {
        std::uint64_t first = 0;
        std::uint64_t last = 0;
        std::uint64_t lid = 0;
        std::uint64_t guid = 0;
        std::string_view name;
        if (switch_ != kNoIndex) {
            return fail("the table before ends without its last line, \"... lids dumped\"");
        }
        if (!line.accept(" [") || !line.number(kMostLid, first) || !line.accept("-") ||
            !line.number(kMostLid, last) || !line.accept("] of switch Lid ") ||
            !line.number(kMostLid, lid) || !line.accept(" guid ") || !line.hexadecimal(guid)) {
            return fail("not understood; \"Unicast lids [0-N] of switch Lid N guid 0xN ('name'):\" "
                        "is expected");
        }
        line.skip_spaces();
        if (line.accept("(")) {
            line.quoted('\'', name);
        }
        if (const auto found = by_guid_.find(guid); found != by_guid_.end() && guid != 0) {
            switch_ = found->second;
        } else if (const auto named = by_name_.find(name); named != by_name_.end()) {
            switch_ = named->second;
        }
        if (switch_ == kNoIndex) {
            return fail("the topology has no switch with this GUID or the name '" +
                        std::string(name) + "'");
        }
        if (header_lines_[switch_] != 0) {
            return fail("there is a table of switch " + topology_.nodes[switch_].name +
                        " in line " + std::to_string(header_lines_[switch_]) + " already");
        }
        header_lines_[switch_] = lines_.number();
        last_lid_ = static_cast<Lid>(last);
        switch_lids_[switch_] = static_cast<Lid>(lid);
        return true;
    }

    // "0x0004 001 # Channel Adapter portguid 0x0000000000100001: 'H000'"
    bool read_entry(Scanner line) {
        std::uint64_t lid = 0;
        std::uint64_t port = 0;
        const bool has_lid = line.hexadecimal(lid);
        line.skip_spaces();
        if (!has_lid || !line.number(kMostPort, port)) {
            return fail("a LID and a port are expected");
        }
        if (lid == 0 || lid > last_lid_) {
            return fail("the LID is not between 1 and " + std::to_string(last_lid_));
        }
        if (port == 0 || port == kMostPort) {
            return true; // the switch itself; unreachable
        }
        const Node& node = topology_.nodes[switch_];
        const LinkIndex out = port > node.out.size() ? kNoIndex : node.out[port - 1];
        if (out == kNoIndex) {
            return fail("switch " + node.name + " has no cable at port " + std::to_string(port));
        }
        const auto table = routes_.table(switch_);
        if (lid < table.size() && table[lid] != 0) {
            return fail("the LID is in this table already");
        }
        routes_.set(switch_, static_cast<Lid>(lid), static_cast<std::uint16_t>(port));
        const auto end = by_link_.find(topology_.links[out].reverse);
        return end == by_link_.end() || deliver(static_cast<Lid>(lid), end->second, line.rest());
    }

    // Records that the switch delivers the LID to this port, which owns it therefore.
    bool deliver(Lid lid, PortIndex port, std::string_view comment) {
        if (owner_[lid] != kNoIndex && owner_[lid] != port) {
            return fail("the LID goes to " + named(port) + ", and to " + named(owner_[lid]) +
                        " in line " + std::to_string(owner_lines_[lid]));
        }
        const std::size_t begin = comment.find('\'');
        const std::size_t end = comment.find_last_of('\'');
        if (begin < end && end != std::string_view::npos) {
            const std::string_view name = comment.substr(begin + 1, end - begin - 1);
            if (name != topology_.nodes[topology_.ports[port].adapter].name) {
                return fail("the LID is that of '" + std::string(name) +
                            "', but the cable leads to " + named(port));
            }
        }
        owner_[lid] = port;
        owner_lines_[lid] = lines_.number();
        return true;
    }

    std::string named(PortIndex port) const {
        const Port& p = topology_.ports[port];
        return topology_.nodes[p.adapter].name + " port " + std::to_string(p.number);
    }

    // Each port has 2^LMC LIDs in a row, the first a multiple of that.
    bool number_ports(Topology& topology) {
        std::vector<std::uint32_t> counts(topology.ports.size(), 0);
        for (Port& port : topology.ports) {
            port.lid = 0;
        }
        for (Lid lid = 1; lid <= kMostLid; ++lid) {
            if (owner_[lid] == kNoIndex) {
                continue;
            }
            Port& port = topology.ports[owner_[lid]];
            port.lid = counts[owner_[lid]]++ == 0 ? lid : port.lid;
            if (lid != port.lid + counts[owner_[lid]] - 1) {
                return lines_.fail_at(owner_lines_[lid], error_,
                                      "the LIDs of " + named(owner_[lid]) + " are not in a row");
            }
        }
        const std::uint32_t count = counts.empty() ? 1 : counts[0];
        for (PortIndex p = 0; p < counts.size(); ++p) {
            if (counts[p] == 0) {
                return fail(named(p) + " has no LID: no table delivers one to it");
            }
            const Port& port = topology.ports[p];
            if (counts[p] != count || !std::has_single_bit(count) || count > 1u << kMostLmc ||
                port.lid % count != 0) {
                return lines_.fail_at(
                    owner_lines_[port.lid], error_,
                    named(p) + " has " + std::to_string(counts[p]) + " LIDs from " +
                        std::to_string(port.lid) + " on, " + named(0) + " has " +
                        std::to_string(count) +
                        "; 2^LMC (0 to 7) from a multiple of that on are expected");
            }
        }
        topology.lmc = static_cast<std::uint32_t>(std::countr_zero(count));
        return true;
    }

    Lines lines_;
    const Topology& topology_;
    std::string& error_;
    std::map<std::uint64_t, NodeIndex> by_guid_;
    std::map<std::string_view, NodeIndex> by_name_;
    std::map<LinkIndex, PortIndex> by_link_; // by outbound link
    std::map<NodeIndex, Lid> switch_lids_;
    std::vector<std::uint32_t> header_lines_; // by node; 0: no table yet
    std::vector<PortIndex> owner_;            // by LID
    std::vector<std::uint32_t> owner_lines_;
    NodeIndex switch_ = kNoIndex; // the switch whose table is being read
    Lid last_lid_ = 0;
    Routes routes_;
};

} // namespace

bool parse_opensm_routes(std::string_view text, const std::string& file, Topology& topology,
                         Routes& out, std::string& error) {
    Reader reader(text, file, topology, error);
    Topology numbered;
    if (!reader.read() || !reader.finish(numbered, out)) {
        return false;
    }
    topology = std::move(numbered);
    return true;
}

bool read_opensm_routes(const std::string& path, Topology& topology, Routes& out,
                        std::string& error) {
    std::string text;
    return read_text_file(path, kRoutesFileBytes, text, error) &&
           parse_opensm_routes(text, path, topology, out, error);
}

} // namespace adaptib::sim
