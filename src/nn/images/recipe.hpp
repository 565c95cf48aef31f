// SPDX-License-Identifier: Apache-2.0
// A stretch of convolutions as works on whole images: what does not depend on shapes. Bounds, additions and factors for
// each channel have become a part of the work before them, where only they read it.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "kernels/channels_last/image_program.hpp"
#include "nn/prepared_graph.hpp"

namespace sluice::nn::detail {

// For a CPU, steps are of one image and borders are a part of the values; for a GPU, steps are of all images, and
// values have no borders, but whole numbers of 8 channels where they are no part of another one (image_batch.hpp).
enum class image_style : unsigned char { one_by_one, together };

struct image_bounds {
    float least, most;
};

struct recipe_work {
    kernels::image_work what{};
    bool is_concatenation = false;        // then `what` does not matter
    bool is_part = false;                 // the same: the output is some channels of the input,
    std::size_t first_channel = 0;        // from this one on,
    std::vector<slot> parts_before = {};  // and after as many as these values have
    std::vector<slot> inputs;
    slot output = no_slot;
    slot also = no_slot;   // convolve: a value that is added
    std::size_t step = 0;  // of the graph: convolutions and poolings have its attributes
    // shuffle, and convolve with a shuffle after it: the value whose second dimension is the number of groups
    slot split = no_slot;
    std::size_t shuffled_groups = 0;  // of convolve: the number of groups for which its filters are in another order
    kernels::image_curve curve = {};  // before the bounds
    std::optional<image_bounds> bounds = {};
    std::size_t numbers = 0;   // place
    std::size_t channels = 0;  // of scale
    std::size_t rank = 0;      // of scale: dimensions of the images that its constants are for; 0: of any
    std::size_t groups = 1;    // of convolve
};

struct image_recipe {
    std::vector<recipe_work> works;
    std::vector<slot> outputs;  // of the graph: values of works, or of the graph's inputs
};

// Where the weights of a recipe's works are written, in the order that a device reads them. Each gives their place.
class number_packer {
public:
    // Filters [filters, channels of a group, height, width], and an addend for each. May change the groups, if it
    // writes the filters of others. `shuffled_groups`: if it is not 0, filter g * n + k, of groups of n, becomes filter
    // k * shuffled_groups + g; only where can_shuffle.
    virtual std::size_t add_filters(const std::vector<float>& filters, const std::vector<float>& addends,
                                    std::size_t& groups, std::size_t channels_of_group, const size_2d& window,
                                    std::size_t shuffled_groups) = 0;
    // Of a transposed convolution in one group: [channels, filters, height, width].
    virtual std::size_t add_transposed_filters(const std::vector<float>& filters, const std::vector<float>& addends,
                                               const size_2d& window, const size_2d& stride) = 0;
    virtual std::size_t add_channel_filters(const std::vector<float>& filters, const std::vector<float>& addends,
                                            const size_2d& window) = 0;
    virtual std::size_t add_factors(const std::vector<float>& factors, const std::vector<float>& addends) = 0;
    // Whether such filters may be in any order, so that a shuffle after them costs nothing.
    virtual bool can_shuffle(std::size_t groups, std::size_t filters, std::size_t channels_of_group) const = 0;

protected:
    ~number_packer() = default;
};

// What a step can be a part of a recipe as. Only steps for which this is not `none` may be in the graph of a recipe.
enum class image_role : unsigned char {
    none,
    convolution,
    transposed_convolution,
    scale,  // by constants, one for each channel
    bounds,
    curve,
    pooling,
    addition,
    multiplication,
    resampling,
    concatenation,
    division,  // gives some of the channels: Split, Slice
    same,      // gives its input
    reshape    // part of a shuffle
};
// `readers` are only_readers of the graph.
image_role role_of(const prepared_graph& in, const std::vector<std::size_t>& readers, std::size_t step,
                   image_style style);
// The three steps from this one on that exchange groups of channels: Reshape, Transpose and Reshape. Empty if there are
// none.
std::vector<std::size_t> shuffle_from(const prepared_graph& in, const std::vector<std::size_t>& readers,
                                      std::size_t step);

// Whether it is the mean of all pixels of images, which stay images of one pixel.
bool is_mean_of_image(const prepared_graph& in, const step& of);

image_recipe recipe_of(const prepared_graph& in, number_packer& numbers, image_style style);

}  // namespace sluice::nn::detail
