// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/reduce.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "nn/operators/launch_rows.hpp"
#include "nn/operators/numbers.hpp"
#include "nn/operators/reduce_layout.hpp"
#include "sluice/base/detail/is_nan.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::nn::operators {
namespace {

// The element that changes nothing.
template <typename Number>
SLUICE_KERNEL Number reduce_start(reduction what, io::dtype type) {
    if (what == reduction::product) return 1;
    const bool is_maximum = what == reduction::maximum;
    if (!is_maximum && what != reduction::minimum) return 0;
    if constexpr (std::is_same_v<Number, double>) {
        return is_maximum ? least_number<double> : greatest_number<double>;
    } else {
        using enum io::dtype;
        switch (type) {
            case boolean: return is_maximum ? 0 : 1;
            case i8: return static_cast<Number>(is_maximum ? -0x80 : 0x7f);
            case u8: return static_cast<Number>(is_maximum ? 0 : 0xff);
            case i16: return static_cast<Number>(is_maximum ? -0x8000 : 0x7fff);
            case u16: return static_cast<Number>(is_maximum ? 0 : 0xffff);
            case i32: return static_cast<Number>(is_maximum ? std::int64_t{-0x8000'0000ll} : 0x7fff'ffff);
            case u32: return static_cast<Number>(is_maximum ? 0 : 0xffff'ffffll);
            default: return is_maximum ? least_number<Number> : greatest_number<Number>;
        }
    }
}

template <reduction What, typename Number>
SLUICE_KERNEL Number reduce_prepared(Number x, [[maybe_unused]] Number centre) {
    if constexpr (What == reduction::absolute_sum && std::is_unsigned_v<Number>) {
        return x;
    } else if constexpr (What == reduction::absolute_sum) {
        return x < 0 ? times(x, static_cast<Number>(-1)) : x;
    } else if constexpr (What == reduction::square_sum) {
        const Number distance = plus(x, times(centre, static_cast<Number>(-1)));
        return times(distance, distance);
    } else if constexpr (What == reduction::exponential_sum) {
        return static_cast<Number>(std::exp(static_cast<double>(x) - static_cast<double>(centre)));
    } else {
        return x;
    }
}

template <reduction What, typename Number>
SLUICE_KERNEL Number reduce_combined(Number a, Number b) {
    if constexpr (What == reduction::product) {
        return times(a, b);
    } else if constexpr (What == reduction::maximum) {
        return sluice::detail::is_nan(a) ? a : sluice::detail::is_nan(b) ? b : (a < b ? b : a);
    } else if constexpr (What == reduction::minimum) {
        return sluice::detail::is_nan(a) ? a : sluice::detail::is_nan(b) ? b : (b < a ? b : a);
    } else {
        return plus(a, b);
    }
}

// Row i makes part i % parts of result i / parts, of every parts-th element. The threads of a team share it.
template <typename Number, bool IsF32>
struct reduce_kernel {
    const void* from;
    void* to;
    const void* centre;
    in_word<io::dtype> from_type, to_type, centre_type;
    in_word<reduction> what;
    in_word<reduction_finish> finish;
    std::size_t parts, divisor;
    reduce_layout layout;

    SLUICE_KERNEL Number read(std::size_t at) const {
        if constexpr (IsF32) {
            return static_cast<Number>(static_cast<const float*>(from)[at]);
        } else {
            return load_number<Number>(from, from_type, at);
        }
    }

    template <reduction What>
    SLUICE_KERNEL void add(Number& total, std::size_t base, std::size_t r, Number middle) const {
        const Number x = read(base + layout.reduced.offset(r));
        total = reduce_combined<What>(total, reduce_prepared<What>(x, middle));
    }

    template <reduction What, typename Team>
    SLUICE_KERNEL Number reduced(std::size_t base, std::size_t part, Number middle, const Team& team) const {
        const Number start = reduce_start<Number>(What, to_type);
        const std::size_t step = parts * team.size();
        std::size_t r = part * team.size() + team.rank();
        Number all = start;
        if constexpr (IsF32) {
            // Four sums at a time, so that none waits for the one before.
            Number total[4] = {start, start, start, start};
            for (; r + 3 * step < layout.count; r += 4 * step)
                for (std::size_t k = 0; k < 4; ++k) add<What>(total[k], base, r + k * step, middle);
            for (; r < layout.count; r += step) add<What>(total[0], base, r, middle);
            all = reduce_combined<What>(reduce_combined<What>(total[0], total[1]),
                                        reduce_combined<What>(total[2], total[3]));
        } else {
            for (; r < layout.count; r += step) add<What>(all, base, r, middle);
        }
        return team.join(all, [](Number a, Number b) { return reduce_combined<What>(a, b); });
    }

    // The greatest first, so that exp does not overflow.
    template <typename Team>
    SLUICE_KERNEL Number log_sum(std::size_t base, std::size_t part, const Team& team) const {
        const Number greatest = reduced<reduction::maximum>(base, part, 0, team);
        if (sluice::detail::is_nan(greatest) || greatest - greatest != 0) return greatest;  // NaN or infinite
        return greatest +
               static_cast<Number>(std::log(reduced<reduction::exponential_sum>(base, part, greatest, team)));
    }

    template <typename Team>
    SLUICE_KERNEL Number result(std::size_t base, std::size_t part, Number middle, const Team& team) const {
        if constexpr (std::is_same_v<Number, double>) {
            if (what == reduction::exponential_sum)
                return reduced<reduction::exponential_sum>(base, part, middle, team);
            if (what == reduction::log_exponential_sum) return log_sum(base, part, team);
        }
        switch (what) {
            case reduction::absolute_sum: return reduced<reduction::absolute_sum>(base, part, middle, team);
            case reduction::square_sum: return reduced<reduction::square_sum>(base, part, middle, team);
            case reduction::product: return reduced<reduction::product>(base, part, middle, team);
            case reduction::maximum: return reduced<reduction::maximum>(base, part, middle, team);
            case reduction::minimum: return reduced<reduction::minimum>(base, part, middle, team);
            default: return reduced<reduction::sum>(base, part, middle, team);
        }
    }

    template <typename Team>
    SLUICE_KERNEL void operator()(std::size_t i, const Team& team) const {
        const std::size_t which = parts == 1 ? i : i / parts, part = parts == 1 ? 0 : i % parts;
        const Number middle = centre != nullptr ? load_number<Number>(centre, centre_type, which) : Number(0);
        Number made = result(layout.kept.offset(which), part, middle, team);
        if (team.rank() != 0) return;
        if (finish == reduction_finish::mean) {
            if constexpr (std::is_same_v<Number, double>) {
                made /= static_cast<double>(divisor);
            } else {
                made = divisor == 0 ? Number(0) : static_cast<Number>(made / static_cast<Number>(divisor));
            }
        }
        if constexpr (std::is_same_v<Number, double>) {
            if (finish == reduction_finish::root) made = std::sqrt(made);
            if (finish == reduction_finish::logarithm) made = std::log(made);
        }
        store_number<Number>(to, to_type, i, made);
    }
};

// How a GPU's threads share a result.
struct sharing {
    unsigned team = 1;      // threads that make a part together
    std::size_t parts = 1;  // in how many parts a result is made
};

// Elements that are neighbours are read by a team; others by one thread, whose neighbours read theirs.
sharing sharing_of(const node_call& in, const reduce_layout& layout) {
    if (!is_on_gpu(in) || layout.count <= 1 || layout.results == 0) return {};
    if (layout.reduced.stride[layout.reduced.rank - 1] == 1 && team_of(layout.count) > 1) {
        constexpr std::size_t of_a_part = 16'384, most_parts = 1024;
        return {team_of(layout.count), std::clamp<std::size_t>(layout.count / of_a_part, 1, most_parts)};
    }
    // From the count alone: a result has the same bits whatever other results are there.
    constexpr std::size_t of_a_part = 256, most_parts = 1024;
    return {1, std::clamp<std::size_t>(layout.count / of_a_part, 1, most_parts)};
}

reduction combining(reduction what) {
    switch (what) {
        case reduction::absolute_sum:
        case reduction::square_sum:
        case reduction::exponential_sum: return reduction::sum;
        default: return what;
    }
}

template <typename Number>
void reduce_as(const node_call& in, reduction what, const any_tensor& x, reduce_layout layout, const any_tensor& to,
               const reduce_options& options) {
    constexpr io::dtype partial_type = io::dtype_of<Number>;
    const any_tensor* from = &x;
    const any_tensor* centre = options.centre;
    any_tensor held;
    const std::size_t divisor = layout.count;
    for (;;) {
        const sharing shared = sharing_of(in, layout);
        const unsigned team = shared.team;
        const std::size_t parts = shared.parts;
        const bool is_last = parts == 1;
        const any_tensor target = is_last ? to : in.make(partial_type, {layout.results, parts});
        const auto run = [&]<bool IsF32>() {
            const reduce_kernel<Number, IsF32> kernel{
                .from = in.read<void>(*from),
                .to = in.write<void>(target),
                .centre = centre != nullptr ? in.read<void>(*centre) : nullptr,
                .from_type = from->type(),
                .to_type = target.type(),
                .centre_type = centre != nullptr ? centre->type() : io::dtype::f32,
                .what = what,
                .finish = is_last ? options.finish : reduction_finish::nothing,
                .parts = parts,
                .divisor = divisor,
                .layout = layout,
            };
            each_row(in, layout.results * parts, layout.count / parts, team, kernel,
                     {from, centre != nullptr ? centre : from}, {&target});
        };
        if constexpr (std::is_same_v<Number, double>) {
            if (from->type() == io::dtype::f32) {
                run.template operator()<true>();
            } else {
                run.template operator()<false>();
            }
        } else {
            run.template operator()<false>();
        }
        if (is_last) return;
        held = target;
        from = &held;
        centre = nullptr;
        what = combining(what);
        const std::size_t results = layout.results;
        layout = {};
        layout.kept.rank = layout.reduced.rank = 1;
        layout.kept.length[0] = layout.results = results;
        layout.kept.stride[0] = parts;
        layout.reduced.length[0] = layout.count = parts;
        layout.reduced.stride[0] = 1;
    }
}

}  // namespace

bool is_on_gpu(const node_call& in) {
    return in.where() == place::device && in.context().device().kind() == device_kind::cuda;
}

void reduce(const node_call& in, reduction what, const any_tensor& x, const std::vector<std::size_t>& axes,
            const any_tensor& to, const reduce_options& options) {
    if (in.where() == place::nowhere) return;
    const reduce_layout layout = layout_of(in, x.shape(), axes);
    if (reduce_on_cpu(in, what, x, layout, to, options)) return;
    const bool is_real = options.finish == reduction_finish::root || options.finish == reduction_finish::logarithm ||
                         what == reduction::exponential_sum || what == reduction::log_exponential_sum;
    with_number(is_real ? io::dtype::f64 : x.type(),
                [&]<typename Number>() { reduce_as<Number>(in, what, x, layout, to, options); });
}

lengths kept_lengths(const lengths& shape, const std::vector<std::size_t>& axes) {
    lengths made = shape;
    for (const std::size_t each : axes) made[each] = 1;
    return made;
}

lengths remaining_lengths(const lengths& shape, const std::vector<std::size_t>& axes) {
    lengths made;
    for (std::size_t d = 0; d < shape.size(); ++d)
        if (std::ranges::find(axes, d) == axes.end()) made.push_back(shape[d]);
    return made;
}

axis_view view_along(const lengths& shape, std::size_t axis) {
    axis_view made;
    for (std::size_t d = 0; d < shape.size(); ++d)
        (d < axis ? made.outer : d == axis ? made.length : made.inner) *= shape[d];
    return made;
}

}  // namespace sluice::nn::operators
