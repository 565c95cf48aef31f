// SPDX-License-Identifier: Apache-2.0
// launch_over_words: the launches that name storage instead of a tensor. What they write is the same for all element
// types of one size, so a kernel is compiled once for each size and not for each type.
#pragma once

#include <cstddef>

#include "sluice/runtime/launch.hpp"

namespace sluice::kernels {
inline namespace SLUICE_LAUNCH_ABI {

// One index for each of the `count` words of the storage, which info names as written. `count` is not 0.
template <typename Word, template <typename> typename Kernel>
void launch_over_words(stream on, const command_info& info, storage& x, std::size_t count, const Kernel<Word>& kernel) {
    const auto values = detail::make_kernel_values(disjoint_view<Word>(static_cast<Word*>(x.data()), count));
    using body = detail::launch_body<Kernel<Word>, index_1d, decltype(values)>;
    typename body::closure closure{count, 1, values, kernel};
    launch_command command = body::command(closure);
    detail::add_notice(on, info.name, closure, command);
    on.launch(info, command);
}

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace sluice::kernels
