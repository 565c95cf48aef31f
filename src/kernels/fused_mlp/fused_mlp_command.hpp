// SPDX-License-Identifier: Apache-2.0
// The command of fused_mlp, for each kind of network: what is checked, which memory it names, and its kernels. Included
// by the source of each kind, which specialises fused_mlp_kernels and instantiates fused_mlp.
#pragma once

#include <array>

#include "sluice/kernels/fused_mlp.hpp"
#include "sluice/runtime/command.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice {
namespace kernels {

// Of a kind of network: `call`, what its kernels take; on_cuda(call, device), the launch for a GPU; on_cpu(call); and
// scratch_floats(call), the scratch memory of on_cpu.
template <typename Network>
struct fused_mlp_kernels;

// Throws errc::shape_mismatch unless x and out are inputs and outputs of a network of these features.
void require_fused_shapes(const shape& x, std::size_t in_features, const shape& out, std::size_t out_features,
                          const error_context& context);

}  // namespace kernels

template <detail::fused_network Network>
void fused_mlp(stream on, const tensor<typename Network::element>& x, const Network& network,
               tensor<typename Network::element>& out, source_location location) {
    using its = kernels::fused_mlp_kernels<Network>;
    const error_context context{"fused_mlp", on.owner().name(), location};
    kernels::require_fused_shapes(x.shape(), network.in_features(), out.shape(), network.out_features(), context);
    if (x.rows() == 0) return;
    if (out.memory() == x.memory()) throw error(errc::invalid_argument, "the output is also the input", context);

    const tensor<std::byte>& image = network.image();
    typename its::call call{x.device_data(), out.device_data(), image.device_data(), x.rows(), network.form()};
    launch_command command;
    storage_ref scratch;
    if (on.owner().kind() == device_kind::cuda) {
        command = its::on_cuda(call, on.owner());
    } else {
        scratch = on.workspace(its::scratch_floats(call) * sizeof(float));
        call.scratch = static_cast<float*>(scratch->data());
    }
    command.host_function = [](const void* closure) { its::on_cpu(*static_cast<const typename its::call*>(closure)); };
    detail::set_closure(command, call);
    const std::array accesses{
        memory_access{x.memory(), access_mode::read}, memory_access{image.memory(), access_mode::read},
        memory_access{out.memory(), access_mode::write}, memory_access{scratch.get(), access_mode::write}};
    on.launch({"fused_mlp", accesses, location}, command);
}

}  // namespace sluice
