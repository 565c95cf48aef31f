// SPDX-License-Identifier: Apache-2.0
// Inputs for a network that is measured or compared: random numbers, or rows from files.
//
// The batch is the dimension of the inputs without a length that is left when --size has said the others, or those that
// --size says are the batch. Random
// floating-point numbers are multiples of 1/128 from -1 to 1, which every type holds exactly; integers are 0 or 1.
//
// Throws error (errc::invalid_argument) for names that the network does not have, and for what is missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::app {

struct sample_options {
    std::vector<std::string> files;    // NAME=FILE
    std::vector<std::string> lengths;  // NAME=LENGTH, NAME=batch
    std::uint64_t seed = 1;
};

class sample_inputs {
public:
    // Reads the files. `is_host_input` says of which inputs the network needs the numbers: these need files.
    sample_inputs(std::vector<nn::value_info> takes, const sample_options& options,
                  const std::function<bool(std::size_t)>& is_host_input);

    // Whether the inputs have a dimension for the batch. Without, they are what of_batch gives for any number.
    bool has_batch() const noexcept { return !batches_.empty(); }
    // The rows that the files hold, if that is one number and there are files of rows.
    std::optional<std::size_t> rows_of_files() const;

    // In the network's order. Files whose first dimension is the batch are repeated or cut to this many rows.
    std::vector<nn::any_tensor> of_batch(std::size_t rows) const;

    // "random numbers", "INPUT.npy", ...: where the numbers come from.
    std::string source() const;

private:
    void set_lengths(const std::vector<std::string>& words);
    void set_lengths_of(std::size_t input, const nn::any_tensor& from_file);
    void find_batch();
    bool is_batch(const nn::dimension& each) const;
    bool is_of_rows(std::size_t input) const;
    std::vector<std::size_t> shape_of(std::size_t input, std::size_t rows) const;

    std::vector<nn::value_info> takes_;
    std::map<std::string, std::size_t> lengths_;        // of dimensions with a name
    std::map<std::size_t, nn::any_tensor> from_files_;  // by input
    std::vector<std::string> names_of_files_;
    std::set<std::string> batches_;  // names of the dimension for the batch; one may be empty
    std::uint64_t seed_;
};

}  // namespace sluice::app
