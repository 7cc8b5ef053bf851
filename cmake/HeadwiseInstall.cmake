include(CMakePackageConfigHelpers)

set_target_properties(headwise PROPERTIES VERSION ${PROJECT_VERSION}
    # Before 1.0 a minor version may change the interface.
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
if(BUILD_SHARED_LIBS)
    set(symbols "${PROJECT_SOURCE_DIR}/cmake/exported_symbols.map")
    target_link_options(headwise PRIVATE "LINKER:--version-script=${symbols}")
    set_property(TARGET headwise APPEND PROPERTY LINK_DEPENDS "${symbols}")
endif()

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/headwise")
install(TARGETS headwise EXPORT headwiseTargets)
install(DIRECTORY include/headwise DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT headwiseTargets NAMESPACE headwise:: DESTINATION "${package_dir}")

configure_package_config_file(cmake/headwiseConfig.cmake.in "${PROJECT_BINARY_DIR}/headwiseConfig.cmake"
    INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/headwiseConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/headwiseConfig.cmake" "${PROJECT_BINARY_DIR}/headwiseConfigVersion.cmake"
    DESTINATION "${package_dir}")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
