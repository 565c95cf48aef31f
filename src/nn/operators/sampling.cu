// SPDX-License-Identifier: Apache-2.0
// Operators that read a tensor at other positions: between its elements, as GridSample, AffineGrid (which gives such
// positions) and RoiAlign, or outside them, as CenterCropPad.
#include <algorithm>
#include <array>
#include <cmath>

#include "nn/operators/expression.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/number_checks.hpp"
#include "nn/operators/resampling.hpp"

namespace sluice::nn::operators {
namespace {

// --- GridSample ------------------------------------------------------------------------------------------------

constexpr std::size_t grid_rank = 4;  // of the positions

enum class grid_mode : std::uint8_t { nearest, linear, cubic };
enum class grid_padding : std::uint8_t { zeros, border, reflection };

template <typename Number>
SLUICE_KERNEL Number grid_reflected(Number x, Number least, Number most) {
    const Number range = most - least;
    if (!(range > 0)) return least;
    if (x >= least && x <= most) return x;
    const Number beyond = x < least ? least - x : x - most;
    const Number turns = std::floor(beyond / range), rest = beyond - turns * range;
    const bool is_even = std::fmod(turns, Number(2)) == 0;
    return (x < least) == is_even ? least + rest : most - rest;
}

// One axis of the input.
template <typename Number>
struct grid_axis {
    std::size_t length;
    in_word<grid_padding> padding;
    in_word<bool> align_corners;

    SLUICE_KERNEL Number least() const { return align_corners ? Number(0) : Number(-0.5); }
    SLUICE_KERNEL Number most() const {
        return static_cast<Number>(length) - (align_corners ? Number(1) : Number(0.5));
    }

    // Of a number from -1 to 1.
    SLUICE_KERNEL Number position(Number x, bool is_rounded) const {
        const Number count = static_cast<Number>(length), far = Number(1e9);
        Number at = align_corners ? (x + 1) / 2 * (count - 1) : ((x + 1) * count - 1) / 2;
        // NaN and what is far away are outside.
        at = at < far ? (at > -far ? at : -far) : (at != at ? -far : far);
        if (is_rounded) at = std::rint(at);
        if (at >= least() && at <= most()) return at;
        if (padding == grid_padding::border) return at < 0 ? 0 : at > count - 1 ? count - 1 : at;
        return padding == grid_padding::reflection ? grid_reflected(at, least(), most()) : at;
    }
    // Of an element; -1 if it counts as 0.
    SLUICE_KERNEL std::int64_t element(Number at) const {
        const std::int64_t last = static_cast<std::int64_t>(length) - 1;
        if (padding == grid_padding::reflection) at = std::trunc(grid_reflected(at, least(), most()));
        const auto k = static_cast<std::int64_t>(at);
        if (padding == grid_padding::zeros) return k >= 0 && k <= last ? k : -1;
        return k < 0 ? 0 : k > last ? last : k;
    }
};

template <typename Number>
SLUICE_KERNEL void grid_weights(grid_mode mode, Number x, Number (&weights)[4]) {
    if (mode == grid_mode::linear) {
        weights[0] = 1 - x;
        weights[1] = x;
        return;
    }
    const Number a = Number(-0.75), before = x + 1, left = 1 - x, after = 2 - x;
    weights[0] = ((a * before - 5 * a) * before + 8 * a) * before - 4 * a;
    weights[1] = ((a + 2) * x - (a + 3)) * x * x + 1;
    weights[2] = ((a + 2) * left - (a + 3)) * left * left + 1;
    weights[3] = ((a * after - 5 * a) * after + 8 * a) * after - 4 * a;
}

// Where an output's element is in the grid and in the input.
template <typename Number>
struct grid_shape {
    const Number* grid;
    std::size_t rank, channels, points, size;  // size: the input's elements of a channel
    grid_axis<Number> axes[grid_rank];

    // The grid's numbers are in the opposite order of the axes.
    SLUICE_KERNEL Number coordinate(std::size_t i, std::size_t axis) const {
        const std::size_t batch = i / points / channels, point = i % points;
        return grid[(batch * points + point) * rank + (rank - 1 - axis)];
    }
};

template <typename Word>
struct grid_nearest_kernel {
    grid_shape<float> shape;
    const Word* from;
    Word* to;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        std::size_t at = 0;
        for (std::size_t d = 0; d < shape.rank; ++d) {
            const auto& axis = shape.axes[d];
            const std::int64_t k = axis.element(axis.position(shape.coordinate(i, d), true));
            if (k < 0) {
                to[i] = 0;
                return;
            }
            at = at * axis.length + static_cast<std::size_t>(k);
        }
        to[i] = from[i / shape.points * shape.size + at];
    }
};

template <typename T>
struct grid_interpolating_kernel {
    using number = computed<T>;
    grid_shape<number> shape;
    in_word<grid_mode> mode;
    const T* from;
    T* to;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t taps = mode == grid_mode::linear ? 2 : 4;
        number weights[grid_rank][4];
        std::int64_t places[grid_rank][4];
        std::size_t combinations = 1;
        for (std::size_t d = 0; d < shape.rank; ++d) {
            const auto& axis = shape.axes[d];
            const number at = axis.position(shape.coordinate(i, d), false), base = std::floor(at);
            grid_weights(mode, at - base, weights[d]);
            for (std::size_t k = 0; k < taps; ++k)
                places[d][k] = axis.element(base + static_cast<number>(k) - (taps == 4 ? 1 : 0));
            combinations *= taps;
        }
        const T* const channel = from + i / shape.points * shape.size;
        number sum = 0;
        for (std::size_t c = 0; c < combinations; ++c) {
            std::size_t rest = c, at = 0, stride = 1;
            number weight = 1;
            bool is_inside = true;
            for (std::size_t d = shape.rank; d-- > 0;) {
                const std::size_t k = rest % taps;
                rest /= taps;
                is_inside = is_inside && places[d][k] >= 0;
                if (is_inside) at += static_cast<std::size_t>(places[d][k]) * stride;
                weight *= weights[d][k];
                stride *= shape.axes[d].length;
            }
            if (is_inside) sum += weight * static_cast<number>(channel[at]);
        }
        to[i] = static_cast<T>(sum);
    }
};

template <typename Number>
any_tensor grid_in(node_call& in) {
    const any_tensor& grid = in.input(1);
    constexpr io::dtype type = io::dtype_of<Number>;
    if (!is_float(grid.type())) in.refuse_type(grid);
    if (grid.type() == type) return grid;
    const any_tensor to = in.make(type, grid.shape());
    expression e(in);
    e.give(to, e.input(grid));
    e.run();
    return to;
}

template <typename Number>
grid_shape<Number> grid_shape_of(const node_call& in, const any_tensor& grid, grid_padding padding, bool align) {
    const lengths& x = in.input(0).shape();
    grid_shape<Number> made{in.read<Number>(grid), x.size() - 2, x[1], 1, 1, {}};
    for (std::size_t d = 0; d < made.rank; ++d) {
        made.axes[d] = {x[d + 2], padding, align};
        made.points *= grid.shape()[d + 1];
        made.size *= x[d + 2];
    }
    return made;
}

// --- AffineGrid ------------------------------------------------------------------------------------------------

template <typename T>
struct affine_kernel {
    const T* matrices;  // [batches, rank, rank + 1]
    T* to;
    std::size_t rank;
    std::size_t sizes[3];  // the first index last: x, y, z
    in_word<bool> align_corners;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t row = i % rank;
        std::size_t rest = i / rank;
        double at[3] = {0, 0, 0};
        for (std::size_t d = 0; d < rank; ++d) {
            const double k = static_cast<double>(rest % sizes[d]), size = static_cast<double>(sizes[d]);
            rest /= sizes[d];
            at[d] = align_corners ? (sizes[d] > 1 ? 2 * k / (size - 1) - 1 : 0) : (2 * k + 1) / size - 1;
        }
        const T* const line = matrices + (rest * rank + row) * (rank + 1);
        double sum = static_cast<double>(static_cast<computed<T>>(line[rank]));
        for (std::size_t d = 0; d < rank; ++d) sum += at[d] * static_cast<double>(static_cast<computed<T>>(line[d]));
        to[i] = static_cast<T>(static_cast<computed<T>>(sum));
    }
};

// --- RoiAlign --------------------------------------------------------------------------------------------------

// The points of one axis in one cell of a region.
template <typename Number>
struct region_points {
    Number first = 0, step = 0;
    std::int64_t count = 0, begin = 0, end = 0;  // those that may be in the tensor: from begin to end

    SLUICE_KERNEL region_points(Number start, Number cell, std::size_t length, std::int64_t ratio) {
        count = ratio > 0 ? ratio : static_cast<std::int64_t>(std::ceil(cell));
        if (count <= 0) {
            count = 0;
            return;
        }
        step = cell / static_cast<Number>(count);
        first = start + step / 2;
        end = count;
        if (!(step > 0)) return;
        // One more at each end: position() is computed again for each.
        const Number low = std::floor((-1 - first) / step) - 1,
                     high = std::ceil((static_cast<Number>(length) - first) / step) + 2;
        if (low > 0) begin = low < static_cast<Number>(count) ? static_cast<std::int64_t>(low) : count;
        if (high < static_cast<Number>(count)) end = high > 0 ? static_cast<std::int64_t>(high) : 0;
    }
    SLUICE_KERNEL Number position(std::int64_t i) const { return first + static_cast<Number>(i) * step; }
};

// The two elements around a position.
template <typename Number>
struct region_pair {
    std::size_t low = 0, high = 0;
    Number part = 0;
    bool is_inside = false;

    SLUICE_KERNEL region_pair(Number at, std::size_t length) {
        if (!(at >= -1 && at <= static_cast<Number>(length))) return;
        is_inside = true;
        const Number positive = at > 0 ? at : 0;
        low = static_cast<std::size_t>(positive);
        if (low + 1 >= length) {
            low = high = length - 1;
        } else {
            high = low + 1;
            part = positive - static_cast<Number>(low);
        }
    }
};

template <typename T>
struct region_kernel {
    using number = computed<T>;
    const T* from;
    const T* regions;
    const std::int64_t* batch_of;
    T* to;
    std::size_t batches, channels, height, width, out_height, out_width;
    std::int64_t ratio;
    in_word<number> scale, offset;
    in_word<bool> is_max;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t column = i % out_width, row = i / out_width % out_height,
                          channel = i / out_width / out_height % channels, r = i / out_width / out_height / channels;
        const std::int64_t batch = batch_of[r];
        number bounds[4];
        bool is_bounded = true;
        for (int k = 0; k < 4; ++k) {
            bounds[k] = static_cast<number>(regions[r * 4 + static_cast<std::size_t>(k)]) * scale - offset;
            is_bounded = is_bounded && bounds[k] > -1e9f && bounds[k] < 1e9f;
        }
        // A region without bounds, or of no batch, gives no numbers.
        if (!is_bounded || batch < 0 || static_cast<std::size_t>(batch) >= batches) {
            to[i] = static_cast<T>(static_cast<number>(NAN));
            return;
        }
        number wide = bounds[2] - bounds[0], high = bounds[3] - bounds[1];
        if (offset == 0) {
            wide = wide > 1 ? wide : 1;
            high = high > 1 ? high : 1;
        }
        const number cell_height = high / static_cast<number>(out_height),
                     cell_width = wide / static_cast<number>(out_width);
        const region_points<number> ys(bounds[1] + static_cast<number>(row) * cell_height, cell_height, height, ratio);
        const region_points<number> xs(bounds[0] + static_cast<number>(column) * cell_width, cell_width, width, ratio);
        const T* const plane = from + (static_cast<std::size_t>(batch) * channels + channel) * height * width;
        number sum = 0, most = 0;
        // Points outside are 0.
        bool has_any = (ys.end - ys.begin < ys.count || xs.end - xs.begin < xs.count) && ys.count > 0 && xs.count > 0;
        for (std::int64_t a = ys.begin; a < ys.end; ++a) {
            const region_pair<number> y(ys.position(a), height);
            for (std::int64_t b = xs.begin; b < xs.end; ++b) {
                const region_pair<number> x(xs.position(b), width);
                number parts[4] = {0, 0, 0, 0};
                if (y.is_inside && x.is_inside) {
                    const T *const above = plane + y.low * width, *const below = plane + y.high * width;
                    parts[0] = (1 - y.part) * (1 - x.part) * static_cast<number>(above[x.low]);
                    parts[1] = (1 - y.part) * x.part * static_cast<number>(above[x.high]);
                    parts[2] = y.part * (1 - x.part) * static_cast<number>(below[x.low]);
                    parts[3] = y.part * x.part * static_cast<number>(below[x.high]);
                }
                sum += parts[0] + parts[1] + parts[2] + parts[3];
                // As ONNX's reference: the largest of the four parts, not of their sums.
                for (int k = 0; k < 4; ++k) {
                    most = !has_any || parts[k] > most ? parts[k] : most;
                    has_any = true;
                }
            }
        }
        const number count = static_cast<number>(ys.count) * static_cast<number>(xs.count);
        to[i] = static_cast<T>(is_max ? most : count > 0 ? sum / count : number(0));
    }
};

// --- CenterCropPad ---------------------------------------------------------------------------------------------

constexpr std::size_t centring_rank = 8;

template <typename Word>
struct centring_kernel {
    const Word* from;
    Word* to;
    std::size_t from_lengths[centring_rank], to_lengths[centring_rank];
    std::int64_t shift[centring_rank];  // from the output's index to the input's
    std::size_t rank;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        std::size_t rest = i, at = 0, stride = 1;
        bool is_inside = true;
        for (std::size_t d = rank; d-- > 0;) {
            const std::int64_t k = static_cast<std::int64_t>(rest % to_lengths[d]) + shift[d];
            rest /= to_lengths[d];
            is_inside = is_inside && k >= 0 && k < static_cast<std::int64_t>(from_lengths[d]);
            if (is_inside) at += static_cast<std::size_t>(k) * stride;
            stride *= from_lengths[d];
        }
        to[i] = is_inside ? from[at] : Word(0);
    }
};

}  // namespace

void grid_sample(node_call& in) {
    const any_tensor &x = in.input(0), &grid = in.input(1);
    const std::size_t rank = x.shape().size() < 2 ? 0 : x.shape().size() - 2;
    if (rank == 0 || grid.shape().size() != rank + 2 || grid.shape()[0] != x.shape()[0] || grid.shape().back() != rank)
        in.refuse_shapes("takes " + to_string(x) + " at the positions " + to_string(grid) + ", which do not fit");
    if (rank > grid_rank) in.refuse_unsupported("has more than 4 dimensions of positions");
    const std::string mode_name = in.text("mode", "linear"), padding_name = in.text("padding_mode", "zeros");
    grid_mode mode{};
    if (mode_name == "nearest") {
        mode = grid_mode::nearest;
    } else if (mode_name == "linear" || mode_name == "bilinear") {
        mode = grid_mode::linear;
    } else if (mode_name == "cubic" || mode_name == "bicubic") {
        mode = grid_mode::cubic;
    } else {
        in.refuse("has the mode '" + mode_name + "'; 'nearest', 'linear' and 'cubic' are possible");
    }
    grid_padding padding{};
    if (padding_name == "zeros") {
        padding = grid_padding::zeros;
    } else if (padding_name == "border") {
        padding = grid_padding::border;
    } else if (padding_name == "reflection") {
        padding = grid_padding::reflection;
    } else {
        in.refuse("has the padding_mode '" + padding_name + "'; 'zeros', 'border' and 'reflection' are possible");
    }
    const bool align = in.integer("align_corners", 0) != 0;

    lengths shape{x.shape()[0], x.shape()[1]};
    shape.insert(shape.end(), grid.shape().begin() + 1, grid.shape().end() - 1);
    const any_tensor& y = in.make_output(0, x.type(), shape);
    if (y.elements() == 0) return;
    if (x.elements() == 0) in.refuse_shapes("makes elements of none: " + to_string(x));
    if (mode == grid_mode::nearest) {
        const any_tensor at = grid_in<float>(in);
        const auto places = grid_shape_of<float>(in, at, padding, align);
        return with_word(x.type(), [&]<typename Word>() {
            each(in, y.elements(), grid_nearest_kernel<Word>{places, in.read<Word>(x), in.write<Word>(y)}, {&x, &at},
                 {&y});
        });
    }
    with_float(in, x, [&]<typename T>() {
        const any_tensor at = grid_in<computed<T>>(in);
        const auto places = grid_shape_of<computed<T>>(in, at, padding, align);
        each(in, y.elements(), grid_interpolating_kernel<T>{places, mode, in.read<T>(x), in.write<T>(y)}, {&x, &at},
             {&y});
    });
}

void affine_grid(node_call& in) {
    const any_tensor& theta = in.input(0);
    const integers size = in.host_integers(1);
    const std::size_t rank = size.size() < 2 ? 0 : size.size() - 2;
    if (rank != 2 && rank != 3)
        in.refuse("has a size that is not [batches, channels, height, width] with or without depth");
    for (const std::int64_t each : size)
        if (each < 0) in.refuse_value(1, "has the length " + std::to_string(each));
    if (theta.shape() != lengths{static_cast<std::size_t>(size[0]), rank, rank + 1})
        in.refuse_shapes("has the matrices " + to_string(theta) + ", which do not fit " + std::to_string(rank) +
                         " dimensions of " + std::to_string(size[0]) + " batches");
    lengths shape{static_cast<std::size_t>(size[0])};
    std::array<std::size_t, 3> sizes{1, 1, 1};
    for (std::size_t d = 0; d < rank; ++d) {
        shape.push_back(static_cast<std::size_t>(size[d + 2]));
        sizes[rank - 1 - d] = shape.back();
    }
    shape.push_back(rank);
    const any_tensor& y = in.make_output(0, theta.type(), shape);
    with_float(in, theta, [&]<typename T>() {
        each(in, y.elements(),
             affine_kernel<T>{in.read<T>(theta),
                              in.write<T>(y),
                              rank,
                              {sizes[0], sizes[1], sizes[2]},
                              in.integer("align_corners", 0) != 0},
             {&theta}, {&y});
    });
}

void roi_align(node_call& in) {
    const any_tensor &x = in.input(0), &regions = in.input(1), &batch_of = in.input(2);
    if (x.shape().size() != 4 || regions.shape().size() != 2 || regions.shape()[1] != 4 ||
        batch_of.shape() != lengths{regions.shape()[0]}) {
        in.refuse_shapes("takes a tensor of 4 dimensions, regions [n, 4] and their batches [n], and is given " +
                         to_string(x) + ", " + to_string(regions) + " and " + to_string(batch_of));
    }
    if (regions.type() != x.type()) in.refuse("has regions of another type than the tensor's");
    if (batch_of.type() != io::dtype::i64) in.refuse_type(batch_of);
    const std::string mode = in.text("mode", "avg"),
                      place = in.text("coordinate_transformation_mode",
                                      in.opset() < 16 ? "output_half_pixel" : "half_pixel");
    if (mode != "avg" && mode != "max") in.refuse("has the mode '" + mode + "'; 'avg' and 'max' are possible");
    if (place != "half_pixel" && place != "output_half_pixel")
        in.refuse("has the coordinates '" + place + "'; 'half_pixel' and 'output_half_pixel' are possible");
    const std::int64_t out_height = in.integer("output_height", 1), out_width = in.integer("output_width", 1),
                       ratio = in.integer("sampling_ratio", 0);
    if (out_height < 1 || out_width < 1 || ratio < 0)
        in.refuse("has an output size or sampling_ratio that makes no sense");
    if (ratio > 1024) in.refuse_unsupported("has the sampling_ratio " + std::to_string(ratio));
    const lengths& shape = x.shape();
    const any_tensor& y = in.make_output(
        0, x.type(),
        {regions.shape()[0], shape[1], static_cast<std::size_t>(out_height), static_cast<std::size_t>(out_width)});
    if (y.elements() != 0 && x.elements() == 0) in.refuse_shapes("makes elements of none: " + to_string(x));
    require_numbers(in, 2, {0, static_cast<std::int64_t>(shape[0]) - 1}, y);
    with_float(in, x, [&]<typename T>() {
        each(in, y.elements(),
             region_kernel<T>{in.read<T>(x), in.read<T>(regions), in.read<std::int64_t>(batch_of), in.write<T>(y),
                              shape[0], shape[1], shape[2], shape[3], y.shape()[2], y.shape()[3], ratio,
                              in.real("spatial_scale", 1), place == "half_pixel" ? computed<T>(0.5f) : computed<T>(0),
                              mode == "max"},
             {&x, &regions, &batch_of}, {&y});
    });
}

void center_crop_pad(node_call& in) {
    const any_tensor& x = in.input(0);
    const std::size_t rank = x.shape().size();
    if (rank > centring_rank) in.refuse_unsupported("has more than 8 dimensions");
    const integers wanted = in.host_integers(1);
    integers named = in.integer_list("axes");
    if (!in.has("axes"))
        for (std::size_t d = 0; d < rank; ++d) named.push_back(static_cast<std::int64_t>(d));
    (void)in.axes(named, rank);
    if (wanted.size() != named.size())
        in.refuse("has " + std::to_string(wanted.size()) + " lengths for " + std::to_string(named.size()) + " axes");
    lengths shape = x.shape();
    for (std::size_t i = 0; i < named.size(); ++i) {
        if (wanted[i] < 0) in.refuse_value(1, "has the length " + std::to_string(wanted[i]));
        shape[in.axis(named[i], rank)] = static_cast<std::size_t>(wanted[i]);
    }
    const any_tensor& y = in.make_output(0, x.type(), shape);
    with_word(x.type(), [&]<typename Word>() {
        centring_kernel<Word> kernel{in.read<Word>(x), in.write<Word>(y), {}, {}, {}, rank};
        for (std::size_t d = 0; d < rank; ++d) {
            const auto from = x.shape()[d], to = shape[d];
            kernel.from_lengths[d] = from;
            kernel.to_lengths[d] = to;
            kernel.shift[d] =
                from > to ? static_cast<std::int64_t>((from - to) / 2) : -static_cast<std::int64_t>((to - from) / 2);
        }
        each(in, y.elements(), kernel, {&x}, {&y});
    });
}

}  // namespace sluice::nn::operators
