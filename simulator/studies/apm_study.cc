// SPDX-License-Identifier: BSD-3-Clause
// Automatic path migration of many queue pairs (Vishnu, 9.4, figures 9.6 to 9.11, two hosts).
//
// Measured: the time to load an alternate path on N queue pairs, until the last one reports armed;
// to migrate all of them on request, until the last one reports that it has migrated; and a port
// that fails under writes that use the queue pairs in turn: the extra time of a write that finds
// its queue pair on the failed port.
// Paper: two hosts with one InfiniHost adapter each, whose second port is the alternate path.
// Here: machine model `infinihost`, the fabric without the core; an adapter loads and migrates one
// queue pair after another. The model's two costs are from the same chapter
// (simulator/network/machine.cc gives the sources). So it is no finding that the times are the
// paper's; it is one that they grow with the number of queue pairs, and that the price of a fault
// does not depend on the message. Not in the model: the cost of INIT to RTS (figures 9.4, 9.5), and
// the processor's time for events (9.10 and 9.11 measure how much it delays a computation).
// Bounds (--check):
//   twice the queue pairs take 1.9 to 2.1 times as long, to arm and to migrate
//   migrating takes 1.1 to 1.4 times as long as arming
//   no write is lost; the price of a fault for 4 KiB is 0.9 to 1.1 times that for 64 bytes
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "simulator/network/world.h"
#include "simulator/studies/study.h"

namespace {

using namespace adaptib;
using namespace adaptib::study;

constexpr Bytes kLargest = 4096;

class Pairs {
public:
    Pairs(const Study& study, std::size_t count) : study_(study), world_(options(study)) {
        for (std::uint32_t host = 0; host < 2; ++host) {
            End& end = ends_[host];
            end.fabric = world_.attach(host).fabric;
            Rail& rail = *end.fabric->rails()[0];
            must(rail.create_cq(1u << 14, end.cq));
            must(rail.allocate(kLargest, kLocalWrite | kRemoteWrite, end.memory));
        }
        for (std::size_t i = 0; i < count; ++i) {
            for (End& end : ends_) {
                QpInit init;
                init.send_cq = init.receive_cq = end.cq.get();
                init.send_depth = 4;
                must(end.fabric->rails()[0]->create_qp(init, end.qps.emplace_back()));
            }
            connect(ends_[0], ends_[1], i);
            connect(ends_[1], ends_[0], i);
        }
    }

    // Microseconds each.
    double arm() {
        return time_of(EventKind::armed, [this](End& self, End& peer, std::size_t i) {
            QpAttributes a;
            a.alternate_path.remote = peer.fabric->rails()[1]->address();
            a.alternate_path.source_port = 2;
            a.migration = MigrationState::rearm;
            must(self.qps[i]->modify(a, kQpAlternatePath | kQpMigration));
        });
    }
    double migrate() {
        return time_of(EventKind::path_migrated, [this](End& self, End&, std::size_t i) {
            if (&self == &ends_[0]) { // the other end follows
                QpAttributes a;
                a.migration = MigrationState::migrated;
                must(self.qps[i]->modify(a, kQpMigration));
            }
        });
    }
    void fail_port() { world_.set_port(world_.topology().hosts[0].ports[0], false); }
    // Mean time of a write over each queue pair, one after the other.
    double write_all(Bytes bytes) {
        const Nanoseconds begin = world_.simulator().now();
        for (const auto& qp : ends_[0].qps) {
            const Gather gather{ends_[0].memory->address(), bytes, ends_[0].memory->local_key()};
            SendWork work;
            work.opcode = Opcode::write;
            work.flags = kSignaled;
            work.gather = &gather;
            work.gather_count = 1;
            work.remote_address = reinterpret_cast<std::uintptr_t>(ends_[1].memory->address());
            work.remote_key = ends_[1].memory->remote_key();
            must(qp->post_send(work));
            std::array<WorkCompletion, 1> done;
            run_until([&] { return ends_[0].cq->poll(done) == 1; });
            if (done[0].status != WorkStatus::success) {
                study_.fail(std::string("a write failed: ") + work_status_text(done[0].status));
            }
        }
        return microseconds(begin) / static_cast<double>(ends_[0].qps.size());
    }

private:
    struct End {
        std::unique_ptr<Fabric> fabric;
        std::unique_ptr<CompletionQueue> cq;
        std::unique_ptr<MemoryRegion> memory;
        std::vector<std::unique_ptr<QueuePair>> qps;
    };

    static sim::WorldOptions options(const Study& study) {
        sim::WorldOptions out;
        out.machine = *sim::machine("infinihost");
        out.topology = sim::crossbar(2, {.adapters = 1, .ports = 2}, sim::links_of(out.machine));
        std::string text;
        if (!sim::Routes::compute(out.topology, out.routes, text)) {
            study.fail(text);
        }
        return out;
    }
    void must(Status status) const {
        if (!status.ok()) {
            study_.fail(std::string("the simulated adapter refuses: ") +
                        reason_text(status.reason()));
        }
    }
    void connect(End& self, End& peer, std::size_t i) {
        QueuePair& qp = *self.qps[i];
        QpAttributes a;
        a.state = QpState::init;
        a.access = kRemoteWrite;
        must(qp.modify(a, kQpState | kQpAccess));
        a.state = QpState::ready_to_receive;
        a.path.remote = peer.fabric->rails()[0]->address();
        a.remote_qp = peer.qps[i]->number();
        must(qp.modify(a, kQpState | kQpPath | kQpRemote | kQpReceiveLimits));
        a.state = QpState::ready_to_send;
        must(qp.modify(a, kQpState | kQpRetry | kQpSendPsn | kQpSendLimits));
    }
    double microseconds(Nanoseconds begin) {
        return 1e-3 * static_cast<double>((world_.simulator().now() - begin).count());
    }
    void run_until(const std::function<bool()>& done) {
        while (!done()) {
            if (world_.simulator().idle()) {
                study_.fail("nothing happens any more");
            }
            world_.simulator().step();
        }
    }
    double time_of(EventKind kind,
                   const std::function<void(End& self, End& peer, std::size_t i)>& ask) {
        const Nanoseconds begin = world_.simulator().now();
        for (std::size_t i = 0; i < ends_[0].qps.size(); ++i) {
            ask(ends_[0], ends_[1], i);
            ask(ends_[1], ends_[0], i);
        }
        std::size_t left = 2 * ends_[0].qps.size();
        run_until([&] {
            adaptib::Event event;
            for (End& end : ends_) {
                while (end.fabric->poll_event(event)) {
                    left -= event.kind == kind ? 1 : 0;
                }
            }
            return left == 0;
        });
        return microseconds(begin);
    }

    const Study& study_;
    sim::World world_;
    std::array<End, 2> ends_;
};

} // namespace

int main(int argc, char** argv) {
    Study study("apm", "Automatic path migration of many queue pairs", "machine model infinihost");
    study.parse(argc, argv);
    Panel panel;
    panel.title = "Transitions";
    panel.unit = "us";
    panel.bytes = false;
    double arm_half = 0;
    double migrate_half = 0;
    double arm = 0;
    double migrate = 0;
    double small_ratio = 0;
    for (std::size_t count = 1; count <= 2048; count *= 2) {
        Pairs pairs(study, count);
        arm_half = std::exchange(arm, pairs.arm());
        migrate_half = std::exchange(migrate, pairs.migrate());
        small_ratio = count == 8 ? migrate / arm : small_ratio;
        const auto x = static_cast<double>(count);
        panel["Migrated-Armed"].points.emplace_back(x, arm);
        panel["Armed-Migrated"].points.emplace_back(x, migrate);
    }
    study.panel(panel);
    study.row("2048 queue pairs: migrated to armed", "ms", arm / 1000);
    study.row("2048 queue pairs: armed to migrated", "ms", migrate / 1000, 60);
    study.row("  armed to migrated against migrated to armed, 8 queue pairs", "", small_ratio, 1.3,
              Bound{1.1, 1.4});
    study.row("  the same, 2048", "", migrate / arm, 1.16, Bound{1.1, 1.4});
    study.row("  2048 against 1024: migrated to armed", "", arm / arm_half, 2.0, Bound{1.9, 2.1});
    study.row("  2048 against 1024: armed to migrated", "", migrate / migrate_half, 2.0,
              Bound{1.9, 2.1});
    std::array<double, 2> price{};
    for (std::size_t i = 0; i < price.size(); ++i) {
        const Bytes bytes = i == 0 ? 64 : kLargest;
        Pairs pairs(study, 512);
        pairs.arm();
        const double before = pairs.write_all(bytes);
        pairs.fail_port();
        price[i] = pairs.write_all(bytes) - before;
        study.row("512 queue pairs, a port fails: a write of " + std::to_string(bytes) +
                      " bytes is longer by",
                  "us", price[i]);
    }
    study.row("  the larger against the smaller", "", price[1] / price[0], 1.0, Bound{0.9, 1.1});
    study.note("The paper's curve of 2048 queue pairs is a computation's loss, of the processor's "
               "time for events as well.");
    return study.finish("apm: " + number_text(migrate / 1000) +
                        " ms for 2048 migrations (paper almost 60), " + number_text(migrate / arm) +
                        " times arming (paper 1.16)");
}
