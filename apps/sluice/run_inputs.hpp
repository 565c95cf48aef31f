// SPDX-License-Identifier: Apache-2.0
// The arrays that a run reads: its input, and the labels and the reference that its outputs are compared with.
//
// All are checked before anything runs, the labels only in the rows that are run. NumPy arrays are mapped, other inputs
// are in memory.
//
// Thread safety: none; one thread feeds the run and takes its outputs.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "run_command.hpp"
#include "sluice/io/npy.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/engine.hpp"

namespace sluice::app {

struct row_range {
    std::size_t first = 0;
    std::size_t count = 0;
};

// Rows of features, of whichever kind the input is. Throws as read_input, and file_error unless it is a matrix of
// `width` columns with at least one row.
class input_rows {
public:
    input_rows(const run_options& options, std::size_t width);

    std::size_t count() const noexcept { return file_ ? file_->view().rows() : read_.shape().front(); }
    // These rows in host memory. Rows that a file holds as f32 are where the file is mapped; others are converted.
    nn::host_rows rows(row_range range) const;
    // Releases the pages of the rows in [first, done), now and then: a large input does not stay resident.
    void release_until(std::size_t first, std::size_t done);
    // Before the rows are read once more.
    void begin_again() noexcept { released_ = 0; }
    // Throws file_error when the file was changed since it was opened.
    void require_unchanged() const {
        if (file_) file_->file().require_unchanged();
    }

private:
    // A NumPy array, else null.
    std::shared_ptr<const io::npy_file> file_;
    nn::any_tensor read_;
    std::size_t released_ = 0;  // the pages of the rows before it are
};

// Labels: one whole number a row.
class label_reader {
public:
    // Reads those of `range`. Throws file_error unless there are `rows` in all and those of the range are classes.
    label_reader(const std::filesystem::path& path, std::size_t rows, row_range range, std::size_t classes);

    // The number of rows from `first` on whose largest of `width` outputs is at the label's class.
    std::size_t count_correct(std::size_t first, std::span<const float> outputs, std::size_t width) const;

private:
    std::size_t first_;
    std::vector<double> labels_;
};

// Outputs to compare with.
class reference_reader {
public:
    reference_reader(const std::filesystem::path& path, std::size_t rows, std::size_t outputs);

    // Throws file_error when the file was changed since it was opened.
    void require_unchanged() const { file_.file().require_unchanged(); }
    // NaN when one of two values is NaN; equal infinities do not differ.
    float largest_difference(std::size_t first, std::span<const float> outputs) const;

private:
    io::npy_file file_;
};

// Compares outputs with the labels and the reference, where files with them were given.
class output_check {
public:
    // For the rows of `range` of an input that has `rows`, with this number of outputs each.
    output_check(const run_options& options, std::size_t rows, row_range range, std::size_t outputs);

    void take(std::size_t first, std::span<const float> outputs);
    // Throws file_error when the reference was changed meanwhile.
    void require_unchanged() const {
        if (reference_) reference_->require_unchanged();
    }

    std::optional<std::size_t> correct() const noexcept { return correct_; }
    std::optional<float> largest_difference() const noexcept { return largest_difference_; }

private:
    std::size_t outputs_;
    std::optional<label_reader> labels_;
    std::optional<reference_reader> reference_;
    std::optional<std::size_t> correct_;
    std::optional<float> largest_difference_;
};

// The larger of two differences, of which NaN counts as the largest.
float larger_difference(float left, float right) noexcept;

}  // namespace sluice::app
