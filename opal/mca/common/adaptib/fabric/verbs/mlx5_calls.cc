// SPDX-License-Identifier: BSD-3-Clause
// Table of libmlx5, if its header was present when adaptib was built.
//
// adaptib does not link libmlx5. Debian and others have it in the package of libibverbs' drivers,
// which machines with other adapters, or none, need not have; with a link, nothing of adaptib would
// load there. On a machine with an mlx5 adapter, libibverbs has loaded libmlx5 as its driver, and
// it must be that copy: another copy would not recognize the device.
#include "adaptib_config.h"
#include "fabric/verbs/verbs_fabric.h"

#if ADAPTIB_HAVE_MLX5DV

#include <dlfcn.h>

#include "fabric/verbs/mlx5_calls.h"

namespace adaptib {

namespace verbs {

namespace {

template <typename Function> bool find(void* library, const char* name, Function*& out) {
    out = reinterpret_cast<Function*>(dlsym(library, name));
    return out != nullptr;
}

} // namespace

bool load_mlx5(Mlx5Calls& out) {
    // Never closed: libibverbs does not unload its drivers either.
    void* const library = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    out.qp_ex_of = ibv_qp_to_qp_ex;
    return library != nullptr && find(library, "mlx5dv_is_supported", out.is_supported) &&
           find(library, "mlx5dv_create_qp", out.create_qp) &&
           find(library, "mlx5dv_qp_ex_from_ibv_qp_ex", out.mlx5_qp_of);
}

} // namespace verbs

const verbs::Mlx5Calls* mlx5_library() {
    struct Loaded {
        verbs::Mlx5Calls calls{};
        bool complete = verbs::load_mlx5(calls);
    };
    static const Loaded kLoaded;
    return kLoaded.complete ? &kLoaded.calls : nullptr;
}

} // namespace adaptib

#else

namespace adaptib {

const verbs::Mlx5Calls* mlx5_library() { return nullptr; }

} // namespace adaptib

#endif
