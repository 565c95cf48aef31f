// SPDX-License-Identifier: Apache-2.0
// Built without protobuf.
#include "serve/config_pbtxt.hpp"
#include "sluice/base/file_error.hpp"

namespace sluice::serve {

pbtxt_config parse_config_pbtxt(const std::string&, const std::filesystem::path& file) {
    throw file_error(file, file_error::no_offset, "",
                     "this Sluice was built without gRPC and its protobuf, which read config.pbtxt: " +
                         std::string(SLUICE_WHY_NO_GRPC) + "; write config.json instead",
                     errc::unsupported);
}

}  // namespace sluice::serve
