// SPDX-License-Identifier: BSD-3-Clause
#include "simulator/advise/traffic_matrix.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "simulator/network/text_file.h"

namespace adaptib::advise {

namespace {

std::vector<std::string_view> cells_of(std::string_view line) {
    std::vector<std::string_view> cells;
    for (;;) {
        const std::size_t comma = line.find(',');
        cells.push_back(line.substr(0, comma));
        if (comma == std::string_view::npos) {
            return cells;
        }
        line.remove_prefix(comma + 1);
    }
}

std::string quote(std::string_view text) { return '"' + std::string(text.substr(0, 60)) + '"'; }

class Reader {
public:
    Reader(std::string_view text, const std::string& file, std::string& error)
        : lines_(text, file), error_(error) {}

    bool read() {
        std::string_view line;
        while (lines_.next(line)) {
            if (!line.empty() && line.back() == '\r') {
                line.remove_suffix(1);
            }
            if (line.empty()) {
                table_ = Table::none;
            } else if (line.front() != '#' && !read_row(cells_of(line))) {
                return false;
            }
        }
        return check();
    }
    TrafficMatrix result() {
        TrafficMatrix out;
        out.ranks = ranks_;
        for (const auto& [rank, host] : hosts_) {
            out.hosts.push_back(host);
        }
        for (const auto& [ends, pair] : pairs_) {
            out.pairs.push_back(pair);
        }
        return out;
    }

private:
    enum class Table : std::uint8_t { none, hosts, pairs };

    bool fail(const std::string& reason) { return lines_.fail(error_, reason); }

    bool read_row(const std::vector<std::string_view>& cells) {
        switch (table_) {
        case Table::none: return read_head(cells);
        case Table::hosts: return read_host(cells);
        case Table::pairs: break;
        }
        return read_pair(cells);
    }

    bool read_head(const std::vector<std::string_view>& cells) {
        columns_.clear();
        for (std::size_t i = 0; i < cells.size(); ++i) {
            columns_[std::string(cells[i])] = i;
        }
        if (has("rank") && has("host")) {
            table_ = Table::hosts;
            return true;
        }
        if (has("from") && has("to") && has("bytes")) {
            table_ = Table::pairs;
            long_only_ = has("long_messages") && has("long_bytes");
            return true;
        }
        return fail("a table begins with the names of its columns, \"rank,host\" or "
                    "\"from,to,messages,bytes\"");
    }

    bool has(const char* column) const { return columns_.count(column) > 0; }

    // Reads a number of the row.
    bool number(const std::vector<std::string_view>& cells, const char* column, std::uint64_t most,
                std::uint64_t& out) {
        const std::string_view cell = cells[columns_.at(column)];
        const auto [end, status] = std::from_chars(cell.data(), cell.data() + cell.size(), out);
        if (status != std::errc{} || end != cell.data() + cell.size() || out > most) {
            return fail(std::string(column) + " is a number from 0 to " + std::to_string(most) +
                        ", not " + quote(cell));
        }
        return true;
    }
    bool is_whole(const std::vector<std::string_view>& cells) {
        return cells.size() == columns_.size() ||
               fail("the row has " + std::to_string(cells.size()) + " cells, its table has " +
                    std::to_string(columns_.size()) + " columns: is the file truncated?");
    }

    bool read_host(const std::vector<std::string_view>& cells) {
        std::uint64_t rank = 0;
        if (!is_whole(cells) || !number(cells, "rank", kMostRanks - 1, rank)) {
            return false;
        }
        const std::string_view host = cells[columns_["host"]];
        if (host.empty() || !hosts_.emplace(rank, host).second) {
            return fail("rank " + std::to_string(rank) +
                        (host.empty() ? " has no host" : " has a row already"));
        }
        return true;
    }

    bool read_pair(const std::vector<std::string_view>& cells) {
        constexpr std::uint64_t kMost = std::uint64_t{1} << 60;
        std::uint64_t from = 0;
        std::uint64_t to = 0;
        std::uint64_t bytes = 0;
        if (!is_whole(cells) || !number(cells, "from", kMostRanks - 1, from) ||
            !number(cells, "to", kMostRanks - 1, to) ||
            !number(cells, long_only_ ? "long_bytes" : "bytes", kMost, bytes)) {
            return false;
        }
        std::uint64_t messages = (bytes + kUnknownBytes - 1) / kUnknownBytes;
        const char* const column = long_only_ ? "long_messages" : "messages";
        if (has(column) && !number(cells, column, kMost, messages)) {
            return false;
        }
        ranks_ = std::max(ranks_, static_cast<std::uint32_t>(std::max(from, to)) + 1);
        if (from == to || bytes == 0) {
            return true; // nothing of it goes over the network
        }
        const PairTraffic pair{static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to),
                               std::max<std::uint64_t>(messages, 1), bytes};
        return pairs_.emplace(std::pair{pair.from, pair.to}, pair).second ||
               fail("ranks " + std::to_string(from) + " and " + std::to_string(to) +
                    " have a row already");
    }

    bool check() {
        if (!hosts_.empty()) {
            ranks_ = std::max(ranks_, static_cast<std::uint32_t>(hosts_.rbegin()->first) + 1);
            if (hosts_.size() != ranks_) {
                return fail("the table of hosts names " + std::to_string(hosts_.size()) + " of " +
                            std::to_string(ranks_) + " ranks");
            }
        }
        return !pairs_.empty() ||
               fail(ranks_ == 0 ? "there is no table of traffic in it"
                                : "no rank sends another one a long message, so no policy matters");
    }

    sim::Lines lines_;
    std::string& error_;
    Table table_ = Table::none;
    std::map<std::string, std::size_t> columns_;
    bool long_only_ = false;
    std::uint32_t ranks_ = 0;
    std::map<std::uint64_t, std::string> hosts_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, PairTraffic> pairs_;
};

} // namespace

Bytes TrafficMatrix::bytes() const {
    Bytes sum = 0;
    for (const PairTraffic& pair : pairs) {
        sum += pair.bytes;
    }
    return sum;
}

std::uint64_t TrafficMatrix::messages() const {
    std::uint64_t sum = 0;
    for (const PairTraffic& pair : pairs) {
        sum += pair.messages;
    }
    return sum;
}

bool parse_traffic(std::string_view text, const std::string& file, TrafficMatrix& out,
                   std::string& error) {
    Reader reader(text, file, error);
    if (!reader.read()) {
        return false;
    }
    out = reader.result();
    return true;
}

bool read_traffic(const std::string& path, TrafficMatrix& out, std::string& error) {
    std::string text;
    return sim::read_text_file(path, kTrafficFileBytes, text, error) &&
           parse_traffic(text, path, out, error);
}

} // namespace adaptib::advise
