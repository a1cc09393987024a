// SPDX-License-Identifier: BSD-3-Clause
// Choice and timing of faults (node.h).
#include "simulator/faults/node.h"

#include "simulator/faults/queue_pair.h"

namespace adaptib::fault {

Site site_of(Fault fault) {
    switch (fault) {
    case Fault::datagram_lost:
    case Fault::datagram_doubled:
    case Fault::datagram_delayed:
    case Fault::datagram_corrupted:
    case Fault::datagram_fails: return Site::datagram;
    case Fault::request_fails:
    case Fault::request_fails_done: return Site::request;
    case Fault::completion_delayed: return Site::completion;
    case Fault::send_refused: return Site::send;
    case Fault::receive_refused: return Site::receive;
    case Fault::create_cq_fails: return Site::create_cq;
    case Fault::create_srq_fails: return Site::create_srq;
    case Fault::create_qp_fails: return Site::create_qp;
    case Fault::create_ah_fails:
    case Fault::create_ah_waits: return Site::create_ah;
    case Fault::register_fails: return Site::register_memory;
    case Fault::allocate_fails: return Site::allocate;
    case Fault::commit_fails: return Site::commit;
    case Fault::modify_fails: return Site::modify;
    case Fault::prepare_path_waits: return Site::prepare_path;
    case Fault::cm_connect_fails: return Site::cm_connect;
    case Fault::handles_stale: return Site::handle;
    case Fault::rail_down:
    case Fault::rail_up:
    case Fault::device_fails:
    case Fault::rail_silent:
    case Fault::death: return Site::node;
    }
    return Site::node;
}

namespace {

bool by_itself(const PlannedFault& fault) {
    return site_of(fault.fault) == Site::node && fault.nth == 0 && fault.rate == 0;
}

} // namespace

// Offers one opportunity to the row: counts it, and draws random numbers, even if another row takes
// it.
bool Node::takes(const PlannedFault& fault, Row& row, std::uint32_t rail) {
    if (row.spent || (fault.rail != kAnyRail && fault.rail != rail) || now() < fault.from ||
        now() >= fault.until) {
        return false;
    }
    ++row.seen;
    if (fault.rate > 0) {
        return random_.unit() < fault.rate;
    }
    return fault.nth == 0 || row.seen == fault.nth;
}

const PlannedFault* Node::draw(Site site, std::uint32_t rail) {
    rows_.resize(plan_.faults.size());
    const PlannedFault* chosen = nullptr;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        const PlannedFault& fault = plan_.faults[i];
        if (site_of(fault.fault) != site || by_itself(fault) || !takes(fault, rows_[i], rail)) {
            continue;
        }
        if (chosen == nullptr) {
            chosen = &fault;
            rows_[i].spent = fault.rate <= 0;
        }
    }
    return chosen;
}

Status Node::refuse(Site site, std::uint32_t rail) {
    const PlannedFault* fault = draw(site, rail);
    if (fault == nullptr) {
        const bool makes = site >= Site::create_cq && site <= Site::modify;
        return makes && failed_[rail] ? Status::error(Reason::no_device) : kOk;
    }
    note(fault->fault, rail);
    if (site == Site::send || site == Site::receive) {
        wake(now()); // to try again
    }
    if (fault->fault == Fault::create_ah_waits || fault->fault == Fault::prepare_path_waits) {
        return Status::again(fault->reason);
    }
    return site == Site::send || site == Site::receive ? Status::again(Reason::queue_full)
                                                       : Status::error(fault->reason);
}

bool Node::is_stale(const AddressHandle* handle, std::uint32_t rail) const {
    const auto found = handles_.find(handle);
    return found != handles_.end() &&
           std::any_of(plan_.faults.begin(), plan_.faults.end(), [&](const PlannedFault& row) {
               return row.fault == Fault::handles_stale &&
                      (row.rail == kAnyRail || row.rail == rail) && now() >= row.from &&
                      now() < row.until && found->second < row.from;
           });
}

bool Node::planned(Site site) const {
    for (std::size_t i = 0; i < plan_.faults.size(); ++i) {
        const PlannedFault& fault = plan_.faults[i];
        const bool over = (i < rows_.size() &&
                           (rows_[i].spent || (fault.nth != 0 && rows_[i].seen >= fault.nth))) ||
                          now() >= fault.until;
        if (site_of(fault.fault) == site && !over) {
            return true;
        }
    }
    return false;
}

// -------------------------------------------------------------------------------------------------
// Faults of the whole node

bool Node::dead() {
    rows_.resize(plan_.faults.size());
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        const PlannedFault& fault = plan_.faults[i];
        if (!by_itself(fault) || rows_[i].spent) {
            continue;
        }
        if (now() < fault.from) {
            if (!rows_[i].announced) {
                wake(fault.from);
            }
            rows_[i].announced = true;
        } else if (now() < fault.until) {
            rows_[i].spent = true;
            strike(fault, fault.rail);
        }
    }
    return dead_;
}

bool Node::dead_at_post(std::uint32_t rail) {
    if (!dead()) {
        if (const PlannedFault* fault = draw(Site::node, rail); fault != nullptr) {
            strike(*fault, fault->rail);
        }
    }
    return dead_;
}

void Node::strike(const PlannedFault& fault, std::uint32_t rail) {
    if (fault.fault == Fault::death) {
        if (!dead_) {
            dead_ = true;
            note(fault.fault, 0);
        }
        return;
    }
    for (std::uint32_t i = 0; i < down_.size(); ++i) {
        if (rail == kAnyRail || rail == i) {
            if (fault.fault == Fault::rail_silent || silent_[i]) {
                silence_rail(i, fault.fault == Fault::rail_silent);
            } else {
                switch_rail(i, fault.fault);
            }
        }
    }
}

void Node::switch_rail(std::uint32_t rail, Fault how) {
    const bool up = how == Fault::rail_up;
    if (down_[rail] == !up) {
        return;
    }
    down_[rail] = !up;
    failed_[rail] = how == Fault::device_fails;
    note(how, rail);
    Event event;
    event.kind = up                           ? EventKind::port_active
                 : how == Fault::device_fails ? EventKind::device_fatal
                                              : EventKind::port_error;
    event.rail = rail;
    events_.push_back(event);
}

void Node::silence_rail(std::uint32_t rail, bool silent) {
    silent_[rail] = silent;
    note(silent ? Fault::rail_silent : Fault::rail_up, rail);
    for (const auto& [key, qp] : qps_) {
        if (key.first == rail && silent) {
            qp->fall_silent();
        }
    }
}

bool Node::take_event(Event& out) {
    if (events_.empty()) {
        return false;
    }
    out = events_.front();
    events_.pop_front();
    return true;
}

// -------------------------------------------------------------------------------------------------
// Queue pairs

FaultQp* Node::find(std::uint32_t rail, std::uint32_t number) const {
    const auto found = qps_.find({rail, number});
    return found == qps_.end() ? nullptr : found->second;
}

void Node::leave(std::uint32_t rail, std::uint32_t number) {
    qps_.erase({rail, number});
    waiting_.erase({rail, number});
}

void Node::run_waiting() {
    for (auto at = waiting_.begin(); at != waiting_.end();) {
        FaultQp& qp = *at->second;
        if (qp.progress()) {
            at = waiting_.erase(at);
            continue;
        }
        if (const Nanoseconds next = qp.next_look(); next != Nanoseconds::max()) {
            wake(next);
        }
        ++at;
    }
}

} // namespace adaptib::fault
