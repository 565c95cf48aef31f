# The installed C interface: the target sluice::c, a shared library that needs no other package.
include(${CMAKE_CURRENT_LIST_DIR}/sluice_cTargets.cmake)
