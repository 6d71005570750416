# The Rust crate rust/textkit as an imported static library. Cargo decides what to rebuild; its dependency file tells
# the generator when to ask it.
find_program(PENSTOCK_CARGO cargo HINTS "$ENV{HOME}/.cargo/bin" REQUIRED)

# penstock_textkit(TARGET): makes TARGET, an IMPORTED library with the folder of textkit.h.
function(penstock_textkit target)
  set(crate ${CMAKE_SOURCE_DIR}/rust/textkit)
  set(library ${PENSTOCK_CARGO_TARGET_DIR}/release/libtextkit.a)
  add_custom_command(
    OUTPUT ${library}
    COMMAND ${CMAKE_COMMAND} -E env CARGO_TARGET_DIR=${PENSTOCK_CARGO_TARGET_DIR}
            ${PENSTOCK_CARGO} build --release --locked --lib --manifest-path ${crate}/Cargo.toml
    COMMAND ${CMAKE_COMMAND} -E touch ${library}
    DEPENDS ${crate}/Cargo.toml ${crate}/Cargo.lock
    DEPFILE ${PENSTOCK_CARGO_TARGET_DIR}/release/libtextkit.d
    WORKING_DIRECTORY ${crate}
    COMMENT "Building rust/textkit with cargo"
    USES_TERMINAL VERBATIM)
  add_custom_target(${target}_build DEPENDS ${library})
  add_library(${target} STATIC IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${library})
  target_include_directories(${target} INTERFACE ${crate})
  target_link_libraries(${target} INTERFACE Threads::Threads ${CMAKE_DL_LIBS} m)
  add_dependencies(${target} ${target}_build)
endfunction()
