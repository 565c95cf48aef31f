// SPDX-License-Identifier: Apache-2.0
// tuning_table: which of several kernels is the fastest, by device and shapes, as tune() measured it (one_of.hpp). It
// can be saved to a file and loaded from it.
//
//     const auto table = std::make_shared<tuning_table>();
//     if (std::filesystem::exists(file)) table->load(file);
//     ...
//     table->save(file);
//
// A measurement is valid for a device of that name, for exactly these kernels in this order, by the names of their
// types without namespaces, and for exactly these shapes. The table does not know the kernels' code or the compiler:
// measure again when they change.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/runtime/shape.hpp"

namespace sluice {

// What one tune() has measured.
struct tuning_measurement {
    std::string device;                // its properties' name: "NVIDIA H200"
    std::vector<std::string> kernels;  // the first is the default
    std::vector<shape> shapes;         // of the tensors among the arguments, in order
    std::size_t fastest = 0;           // the position among the kernels
    double microseconds = 0;           // of the fastest
    double default_microseconds = 0;   // of the first kernel
};

class tuning_table {
public:
    tuning_table() = default;
    tuning_table(const tuning_table&) = delete;  // launches share it; entries may be added meanwhile
    tuning_table& operator=(const tuning_table&) = delete;

    // Replaces what the table knows of the same device, kernels and shapes. Throws errc::invalid_argument for no
    // kernels or shapes, a fastest that is none of the kernels, a time that is negative or no number, or a name that is
    // empty or has a line break. Costs O(log n) comparisons in the number of measurements.
    void add(tuning_measurement measured);

    // The position of the fastest kernel; nullopt where nothing was measured. Costs O(log n) comparisons in the number
    // of measurements.
    std::optional<std::size_t> find(std::string_view device, std::span<const std::string_view> kernels,
                                    std::span<const shape> shapes) const;
    std::vector<tuning_measurement> measurements() const;  // a copy of all measurements; costs O(measurements)

    // Adds all measurements of the file. Blocks. Throws file_error for a file that is missing, cannot be read, or is
    // not exactly a table; then the table is as it was. Costs O(bytes of the file), and what add costs for each
    // measurement.
    void load(const std::filesystem::path& file);
    // Writes the measurements, and those that the file has of other devices, kernels and shapes. Makes folders that are
    // missing. Blocks until the file is on the disk. The new file takes the place of the old one in one step, even
    // where others write and read it. Threads of one process lose nothing; where two processes save at the same moment,
    // the measurements of one may be lost. Throws file_error when the file cannot be written, or is there and no table:
    // it is then left as it is. Costs a read and a write of the file, and what add costs for each measurement of both.
    void save(const std::filesystem::path& file) const;

private:
    // What finds a measurement, without a copy.
    struct place {
        std::string_view device;
        std::span<const std::string_view> kernels;
        std::span<const shape> shapes;
    };
    struct in_order {
        using is_transparent = void;
        bool operator()(const tuning_measurement& a, const tuning_measurement& b) const;
        bool operator()(const tuning_measurement& a, const place& b) const;
        bool operator()(const place& a, const tuning_measurement& b) const;
    };

    mutable std::mutex mutex_;
    std::set<tuning_measurement, in_order> all_;
};

}  // namespace sluice
