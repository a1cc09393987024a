// SPDX-License-Identifier: BSD-3-Clause
// Entry points of libibverbs: devices, contexts, ports, asynchronous events. Results and errors are
// those of the manual pages, here and in the other entry_*.cc.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <endian.h>
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "engine.h"
#include "entry.h"

using namespace adaptib::hca;

namespace {

ibv_mtu encode_mtu(unsigned bytes) {
    int code = IBV_MTU_256;
    for (; bytes > 256; bytes /= 2) {
        ++code;
    }
    return static_cast<ibv_mtu>(code);
}

// Widths and speeds of real links (IBA vol. 1, 14.2.5.6), by their rate.
void encode_rate(unsigned gigabits, ibv_port_attr& attributes) {
    struct Link {
        unsigned gigabits;
        std::uint8_t width;
        std::uint8_t speed;
    };
    static constexpr Link kLinks[] = {{10, 2, 1},   {20, 2, 2},   {40, 2, 4},   {56, 2, 16},
                                      {100, 2, 32}, {200, 2, 64}, {400, 2, 128}};
    attributes.active_width = 2;
    attributes.active_speed = 1;
    for (const Link& link : kLinks) {
        if (gigabits >= link.gigabits) {
            attributes.active_width = link.width;
            attributes.active_speed = link.speed;
        }
    }
}

const PortDescription* find_port(ibv_context* context, std::uint32_t index) {
    const auto& ports = of(context)->device->description->ports;
    return index == 0 || index > ports.size() ? nullptr : &ports[index - 1];
}

int query_port(ibv_context* context, std::uint8_t index, ibv_port_attr* result, std::size_t size) {
    const PortDescription* const port = find_port(context, index);
    if (port == nullptr) {
        return EINVAL;
    }
    if (Engine::get()->gone(*of(context))) {
        return EIO;
    }
    ibv_port_attr attributes{};
    const bool down = Engine::get()->port_down(port->number);
    attributes.state = down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
    attributes.max_mtu = encode_mtu(port->max_mtu);
    attributes.active_mtu = encode_mtu(port->active_mtu);
    attributes.gid_tbl_len = static_cast<int>(port->gid_entries);
    attributes.port_cap_flags = port->ethernet ? 0x10000 : 0x02514868;
    attributes.max_msg_sz =
        static_cast<std::uint32_t>(of(context)->device->description->rule(Rule::max_message));
    attributes.pkey_tbl_len = static_cast<std::uint16_t>(port->pkeys.size());
    attributes.lid = Engine::get()->lid(*port);
    attributes.sm_lid = port->ethernet ? 0 : 1;
    attributes.sm_sl = 0;
    attributes.lmc = port->lmc;
    attributes.max_vl_num = 4;
    attributes.phys_state = down ? 3 : 5;
    attributes.link_layer = port->ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
    attributes.flags = port->ethernet ? IBV_QPF_GRH_REQUIRED : 0;
    encode_rate(port->gigabits, attributes);
    std::memset(result, 0, size);
    std::memcpy(result, &attributes, std::min(size, sizeof attributes));
    return 0;
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input*,
                    ibv_device_attr_ex* result, std::size_t size) {
    ibv_device_attr_ex attributes{};
    const int error = ibv_query_device(context, &attributes.orig_attr);
    attributes.phys_port_cnt_ex = attributes.orig_attr.phys_port_cnt;
    std::memset(result, 0, size);
    std::memcpy(result, &attributes, std::min(size, sizeof attributes));
    return error;
}

int query_values(ibv_context*, ibv_values_ex* values) {
    values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
    return clock_gettime(CLOCK_MONOTONIC, &values->raw_clock) == 0 ? 0 : errno;
}

// Loads libmlx5 if a device needs that driver, as the real library loads its drivers. It stays.
void load_driver(const Engine* engine) {
    if (engine != nullptr &&
        std::any_of(engine->devices().begin(), engine->devices().end(),
                    [](const Device* device) { return device->description->dc; })) {
        dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL);
    }
}

} // namespace

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
    Engine* const engine = Engine::get();
    load_driver(engine);
    const std::size_t devices = engine == nullptr ? 0 : engine->devices().size();
    auto** const list = static_cast<ibv_device**>(std::calloc(devices + 1, sizeof(ibv_device*)));
    int present = 0;
    for (std::size_t index = 0; index < devices; ++index) {
        if (engine->removals(*engine->devices()[index]) % 2 == 0) {
            list[present++] = &engine->devices()[index]->device;
        }
    }
    if (count != nullptr) {
        *count = present;
    }
    return list;
}

void ibv_free_device_list(ibv_device** list) { std::free(list); }
const char* ibv_get_device_name(ibv_device* device) { return device->name; }
int ibv_get_device_index(ibv_device* device) { return of(device)->number; }
__be64 ibv_get_device_guid(ibv_device* device) { return htobe64(of(device)->description->guid); }

ibv_context* ibv_open_device(ibv_device* device) {
    Engine& engine = *Engine::get();
    const std::lock_guard guard(engine.lock);
    const std::uint32_t removals = engine.removals(*of(device));
    if (removals % 2 != 0) {
        errno = ENODEV;
        return nullptr;
    }
    engine.start();
    auto* const context = new Context;
    context->device = of(device);
    context->removals = removals;
    verbs_context& verbs = context->verbs;
    verbs.sz = sizeof verbs;
    verbs.query_port = query_port;
    verbs.query_device_ex = query_device_ex;
    verbs.query_rt_values = query_values;
    add_queue_calls(verbs);
    verbs.context.device = device;
    verbs.context.cmd_fd = -1;
    verbs.context.async_fd = context->events.file();
    verbs.context.num_comp_vectors = 1;
    verbs.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    pthread_mutex_init(&verbs.context.mutex, nullptr);
    engine.add(context);
    return &verbs.context;
}

int ibv_close_device(ibv_context* context) {
    Engine& engine = *Engine::get();
    const std::lock_guard guard(engine.lock);
    engine.remove(of(context));
    if (!engine.gone(*of(context))) { // else what could not be destroyed needs it
        delete of(context);
    }
    return 0;
}

int ibv_query_device(ibv_context* context, ibv_device_attr* result) {
    if (Engine::get()->gone(*of(context))) {
        return EIO;
    }
    const DeviceDescription& device = *of(context)->device->description;
    ibv_device_attr attributes{};
    std::snprintf(attributes.fw_ver, sizeof attributes.fw_ver, "1.0");
    attributes.node_guid = attributes.sys_image_guid = htobe64(device.guid);
    attributes.max_mr_size = ~0ULL;
    attributes.page_size_cap = 0xfffff000;
    attributes.vendor_id = static_cast<std::uint32_t>(device.rule(Rule::vendor));
    attributes.max_qp = device.limit(Rule::max_qp);
    attributes.max_qp_wr = device.limit(Rule::max_qp_wr);
    attributes.device_cap_flags = IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_PORT_ACTIVE_EVENT |
                                  IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN;
    if (device.rule(Rule::apm) != 0) {
        attributes.device_cap_flags |= IBV_DEVICE_AUTO_PATH_MIG;
    }
    attributes.max_sge = device.limit(Rule::max_sge);
    attributes.max_sge_rd = device.limit(Rule::max_sge_rd);
    attributes.max_cq = device.limit(Rule::max_cq);
    attributes.max_cqe = device.limit(Rule::max_cqe);
    attributes.max_mr = device.limit(Rule::max_mr);
    attributes.max_pd = device.limit(Rule::max_pd);
    attributes.max_qp_rd_atom = device.limit(Rule::max_reads);
    attributes.max_qp_init_rd_atom = device.limit(Rule::max_init_reads);
    attributes.max_res_rd_atom =
        static_cast<int>(std::min(device.rule(Rule::max_reads) * device.rule(Rule::max_qp), kAny));
    attributes.atomic_cap = static_cast<ibv_atomic_cap>(device.rule(Rule::atomics));
    attributes.max_ah = device.limit(Rule::max_ah);
    attributes.max_srq = device.limit(Rule::max_srq);
    attributes.max_srq_wr = attributes.max_srq == 0 ? 0 : device.limit(Rule::max_srq_wr);
    attributes.max_srq_sge = attributes.max_srq == 0 ? 0 : device.limit(Rule::max_srq_sge);
    attributes.max_pkeys = static_cast<std::uint16_t>(device.ports.front().pkeys.size());
    attributes.local_ca_ack_delay = 15;
    attributes.phys_port_cnt = static_cast<std::uint8_t>(device.ports.size());
    *result = attributes;
    return 0;
}

// The structure of old programs ends before port_cap_flags2.
int ibv_query_port(ibv_context* context, std::uint8_t index, _compat_ibv_port_attr* result) {
    return query_port(context, index, reinterpret_cast<ibv_port_attr*>(result),
                      offsetof(ibv_port_attr, port_cap_flags2));
}

int ibv_query_gid(ibv_context* context, std::uint8_t port_index, int index, ibv_gid* gid) {
    const PortDescription* const port = find_port(context, port_index);
    if (port == nullptr || index < 0 || static_cast<std::size_t>(index) >= port->gid_entries) {
        errno = EINVAL;
        return -1;
    }
    if (static_cast<std::size_t>(index) >= port->gids.size()) { // an empty entry
        std::memset(gid->raw, 0, sizeof gid->raw);
        return 0;
    }
    std::memcpy(gid->raw, port->gids[static_cast<std::size_t>(index)].data(), 16);
    return 0;
}

int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port_index, std::uint32_t index,
                      ibv_gid_entry* entry, std::uint32_t, std::size_t size) {
    const PortDescription* const port = find_port(context, port_index);
    if (port == nullptr) {
        return EINVAL;
    }
    if (index >= port->gids.size()) {
        return ENODATA;
    }
    ibv_gid_entry result{};
    std::memcpy(result.gid.raw, port->gids[index].data(), 16);
    result.gid_index = index;
    result.port_num = port_index;
    result.gid_type = !port->ethernet              ? IBV_GID_TYPE_IB
                      : port->first_version[index] ? IBV_GID_TYPE_ROCE_V1
                                                   : IBV_GID_TYPE_ROCE_V2;
    std::memcpy(entry, &result, std::min(size, sizeof result));
    return 0;
}

ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t limit,
                             std::uint32_t flags, std::size_t size) {
    std::size_t count = 0;
    for (const PortDescription& port : of(context)->device->description->ports) {
        for (std::uint32_t index = 0; index < port.gids.size(); ++index) {
            if (count == limit) {
                return -EINVAL;
            }
            auto* const place = reinterpret_cast<std::uint8_t*>(entries) + count++ * size;
            _ibv_query_gid_ex(context, port.index, index, reinterpret_cast<ibv_gid_entry*>(place),
                              flags, size);
        }
    }
    return static_cast<ssize_t>(count);
}

// Private to rdma-core: 0 is InfiniBand and RoCE v1, 1 is RoCE v2.
int ibv_query_gid_type(ibv_context* context, std::uint8_t port_index, unsigned index, int* type) {
    const PortDescription* const port = find_port(context, port_index);
    if (port == nullptr) {
        errno = EINVAL;
        return -1;
    }
    *type = port->ethernet && (index >= port->gids.size() || !port->first_version[index]) ? 1 : 0;
    return 0;
}

int ibv_query_pkey(ibv_context* context, std::uint8_t port_index, int index, __be16* pkey) {
    const PortDescription* const port = find_port(context, port_index);
    if (port == nullptr || index < 0 || static_cast<std::size_t>(index) >= port->pkeys.size()) {
        errno = EINVAL;
        return -1;
    }
    *pkey = htons(port->pkeys[static_cast<std::size_t>(index)]);
    return 0;
}

int ibv_get_pkey_index(ibv_context* context, std::uint8_t port_index, __be16 wanted) {
    __be16 pkey = 0;
    for (int index = 0; ibv_query_pkey(context, port_index, index, &pkey) == 0; ++index) {
        if (pkey == wanted) {
            return index;
        }
    }
    return -1;
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
    Engine& engine = *Engine::get();
    Notices<ibv_async_event>& events = of(context)->events;
    for (;;) {
        if (!events.await()) {
            return -1;
        }
        const std::lock_guard guard(engine.lock);
        if (events.pop(*event)) {
            count_delivered(*event);
            return 0;
        }
    }
}

void ibv_ack_async_event(ibv_async_event* event) { acknowledge_event(*event); }

} // extern "C"
