// SPDX-License-Identifier: Apache-2.0
#include "tune_command.hpp"

#include <array>
#include <charconv>
#include <iomanip>
#include <ostream>
#include <sstream>

#include "json_line.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/runtime/runtime.hpp"
#include "text_table.hpp"

namespace sluice::app {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw error(errc::invalid_argument, why, {"tune"}); }

gemm_type type_from(const std::string& name) {
    for (const gemm_type each : {gemm_type::bf16, gemm_type::f16, gemm_type::tf32}) {
        if (name == to_string(each)) return each;
    }
    refuse("\"" + name + "\" is none of bf16, f16 and tf32");
}

// "rows x columns x inner", without spaces.
std::array<std::size_t, 3> sizes_from(const std::string& text) {
    std::array<std::size_t, 3> sizes{};
    const char* at = text.data();
    const char* const end = text.data() + text.size();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (i != 0 && (at == end || *at++ != 'x')) refuse("\"" + text + "\" is not ROWSxCOLUMNSxINNER");
        const auto [stop, failure] = std::from_chars(at, end, sizes[i]);
        constexpr std::size_t most = 1 << 20;
        if (failure != std::errc() || sizes[i] == 0 || sizes[i] > most) {
            refuse("\"" + text + "\" is not ROWSxCOLUMNSxINNER, each from 1 to " + std::to_string(most));
        }
        at = stop;
    }
    if (at != end) refuse("\"" + text + "\" is not ROWSxCOLUMNSxINNER");
    return sizes;
}

std::string text_of(double microseconds) {
    std::ostringstream text;
    text << std::fixed << std::setprecision(2) << microseconds;
    return text.str();
}

}  // namespace

std::vector<gemm_problem> problems_of(const tune_options& options) {
    if (options.shapes.empty()) return usual_gemm_problems();
    std::vector<gemm_problem> all;
    for (const std::string& each : options.shapes) {
        const auto [rows, columns, inner] = sizes_from(each);
        all.push_back({type_from(options.type), !options.plain_b, rows, columns, inner});
    }
    return all;
}

void tune(const tune_options& options, bool as_json, std::ostream& out) {
    const std::vector<gemm_problem> problems = problems_of(options);
    runtime machine;
    device& gpu = machine.find(options.device);
    const std::filesystem::path file = options.table ? *options.table : gemm_table_file(gpu.properties());
    const auto measured = tune_gemm(gpu, problems, file);

    auto list = nlohmann::json::array();
    text_table table({"type", "b", "rows", "columns", "inner", "fastest", "us", "cuBLASLt us"});
    for (const gemm_measurement& each : measured) {
        const std::string type(to_string(each.of.type));
        list.push_back({{"type", type},
                        {"transpose_b", each.of.b_is_transposed},
                        {"rows", each.of.rows},
                        {"columns", each.of.columns},
                        {"inner", each.of.inner},
                        {"fastest", each.fastest},
                        {"microseconds", each.microseconds},
                        {"cublaslt_microseconds", each.library_microseconds}});
        table.add({type, each.of.b_is_transposed ? "transposed" : "plain", std::to_string(each.of.rows),
                   std::to_string(each.of.columns), std::to_string(each.of.inner), each.fastest,
                   text_of(each.microseconds), text_of(each.library_microseconds)});
    }
    if (as_json) {
        out << json_line({{"device", gpu.name()}, {"table", file.string()}, {"products", list}}) << '\n';
        return;
    }
    out << table << "table: " << printable(file.native()) << '\n';
}

}  // namespace sluice::app
