// SPDX-License-Identifier: BSD-3-Clause
#include "selftest/partner.h"

#include <mpi.h>

namespace adaptib::selftest {

namespace {

constexpr char kValue = 'v';
constexpr char kEnd = 'e';

Outcome outcome_of(const std::string& text) {
    return {static_cast<Verdict>(text.at(0) - '0'), text.substr(1)};
}

} // namespace

void Partner::send(char kind, const std::string& text) const {
    const std::string message = kind + text;
    MPI_Send(message.data(), static_cast<int>(message.size()), MPI_CHAR, 1 - rank_, 0,
             MPI_COMM_WORLD);
}

Partner::Message Partner::receive() const {
    MPI_Status status;
    int length = 0;
    MPI_Probe(1 - rank_, 0, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_CHAR, &length);
    std::string message(static_cast<std::size_t>(length), '\0');
    MPI_Recv(message.data(), length, MPI_CHAR, 1 - rank_, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return {message.at(0) == kEnd, message.substr(1)};
}

std::string Partner::exchange_piece(const std::string& mine) {
    if (partner_ended_) {
        throw PartnerEnded();
    }
    send(kValue, mine);
    Message got = receive();
    if (got.end) {
        partner_ended_ = true;
        outcome_ = got.text;
        throw PartnerEnded();
    }
    return got.text;
}

std::string Partner::exchange_text(const std::string& mine) {
    const std::size_t length = std::max(mine.size(), exchange(mine.size()));
    std::string out;
    for (std::size_t at = 0; at < length; at += kPiece) {
        out += exchange_piece(at < mine.size() ? mine.substr(at, kPiece) : std::string());
    }
    return out;
}

Outcome Partner::end(const Outcome& mine) {
    send(kEnd, std::string(1, static_cast<char>('0' + static_cast<int>(mine.verdict))) + mine.text);
    while (!partner_ended_) {
        const Message got = receive();
        partner_ended_ = got.end;
        outcome_ = got.text;
    }
    partner_ended_ = false;
    return outcome_of(outcome_);
}

} // namespace adaptib::selftest
