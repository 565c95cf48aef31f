// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/slabs.hpp"

#include <algorithm>

#include "nn/operators/launch_each.hpp"
#include "nn/operators/moves_on_cpu.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::nn::operators {
namespace {

// Blocks of elements, each some way from the one before.
template <typename Word>
struct slab_copy {
    const Word* from;
    Word* to;
    std::size_t block, from_step, to_step;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        to[i / block * to_step + i % block] = from[i / block * from_step + i % block];
    }

    static constexpr std::size_t numbers_of_part = words_of_part<Word>;
    std::size_t host_unit() const { return block; }
    void on_host(std::size_t first, std::size_t last) const {
        for (std::size_t k = first / block; k < last / block; ++k)
            copy_run(from + k * from_step, block, to + k * to_step);
    }
};

std::size_t slab_elements(std::span<const std::size_t> shape, std::size_t first) {
    return product_of(shape.subspan(first));
}

}  // namespace

any_tensor brought_here(const node_call& in, const any_tensor& from) {
    if (in.where() != place::device || !from || from.is_on_device()) return from;
    const command_info info{"upload"};
    storage_ref to = in.context().stream().allocate(std::max<std::size_t>(from.size_bytes(), 1), info);
    if (from.elements() != 0) {
        sluice::detail::upload_bytes(in.context().stream(), *to, from.bytes().data(), from.size_bytes(),
                                     from.host_owner(), info.location);
    }
    return from.with_memory(std::move(to));
}

any_tensor slab_of(const node_call& in, const any_tensor& x, std::size_t axis, std::size_t at) {
    lengths shape = x.shape();
    const std::size_t block = slab_elements(shape, axis + 1), step = block * shape[axis];
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
    const std::size_t count = product_of(shape);
    if (x.is_on_host()) {
        std::byte* to = nullptr;
        any_tensor made = any_tensor::make_on_host(x.type(), shape, to);
        with_word(x.type(), [&]<typename Word>() {
            const auto* const from = reinterpret_cast<const Word*>(x.bytes().data());
            if (count == 0) return;
            const slab_copy<Word> copy{from + at * block, reinterpret_cast<Word*>(to), block, step, block};
            copy.on_host(0, count);
        });
        return made;
    }
    any_tensor made = in.make(x.type(), shape);
    if (in.where() == place::nowhere) return made;
    with_word(x.type(), [&]<typename Word>() {
        each(in, count, slab_copy<Word>{in.read<Word>(x) + at * block, in.write<Word>(made), block, step, block}, {&x},
             {&made});
    });
    return made;
}

any_tensor stacked(const node_call& in, std::span<const any_tensor> parts, std::size_t axis) {
    lengths shape = parts[0].shape();
    const io::dtype type = parts[0].type();
    for (const any_tensor& part : parts) {
        if (part.type() != type || part.shape() != shape)
            in.refuse_shapes("puts together " + to_string(parts[0]) + " and " + to_string(part));
    }
    const std::size_t block = slab_elements(shape, axis), step = block * parts.size();
    const std::size_t count = product_of(shape);
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), parts.size());
    if (std::ranges::all_of(parts, &any_tensor::is_on_host)) {
        std::byte* to = nullptr;
        any_tensor made = any_tensor::make_on_host(type, shape, to);
        if (count == 0) return made;
        with_word(type, [&]<typename Word>() {
            for (std::size_t k = 0; k < parts.size(); ++k) {
                const slab_copy<Word> copy{reinterpret_cast<const Word*>(parts[k].bytes().data()),
                                           reinterpret_cast<Word*>(to) + k * block, block, block, step};
                copy.on_host(0, count);
            }
        });
        return made;
    }
    any_tensor made = in.make(type, shape);
    if (in.where() == place::nowhere || count == 0) return made;
    with_word(type, [&]<typename Word>() {
        for (std::size_t k = 0; k < parts.size(); ++k) {
            const any_tensor part = brought_here(in, parts[k]);
            each(in, count, slab_copy<Word>{in.read<Word>(part), in.write<Word>(made) + k * block, block, block, step},
                 {&part}, {&made});
        }
    });
    return made;
}

}  // namespace sluice::nn::operators
