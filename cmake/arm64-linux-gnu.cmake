# Cross compilation for arm64 Linux on another Linux; programs run on an emulated processor.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
# Static: the emulator then needs no libraries of the other system.
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
