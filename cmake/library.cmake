# The C library as installed: libsluice.a and libsluice.so of one object that
# has all code and exports client/lib/exports alone, so that no name of ours can
# clash with one of the program's.
set(out ${PROJECT_BINARY_DIR}/library)
set(soversion ${PROJECT_VERSION_MAJOR})
set(so libsluice.so.${PROJECT_VERSION})
# Libraries and not packages: pkg-config --static would add what libzmq.a needs,
# which is more than a machine with the shared libzmq has.
set(private ${ZMQ_LDFLAGS} ${XXHASH_LDFLAGS})
set(libraries ${ZMQ_LDFLAGS} ${PROTOBUF_C_LDFLAGS} ${XXHASH_LDFLAGS} -lm)
get_target_property(links sluice_transport LINK_LIBRARIES)
if(links MATCHES "PkgConfig::CZMQ")
  list(APPEND private ${CZMQ_LDFLAGS})
  list(APPEND libraries ${CZMQ_LDFLAGS})
endif()
list(REMOVE_DUPLICATES private)
list(JOIN private " " SLUICE_PC_PRIVATE)

set(parts sluice_client sluice_client_core sluice_transport sluice_common)
set(archives)
foreach(part IN LISTS parts)
  list(APPEND archives $<TARGET_FILE:${part}>)
endforeach()
# The linker takes from archives what the client needs; messages and the
# contract's own functions are there in full.
set(whole $<TARGET_FILE:sluice_client> $<TARGET_FILE:sluice_proto>)
add_custom_command(OUTPUT ${out}/libsluice.a ${out}/${so}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${out}
  COMMAND ${CMAKE_LINKER} -r -o ${out}/all.o -u limits_print -u error_wrap
    -u status_name --whole-archive ${whole} --no-whole-archive --start-group
    ${archives} --end-group
  COMMAND ${CMAKE_OBJCOPY} -w
    --keep-global-symbols=${PROJECT_SOURCE_DIR}/client/lib/exports
    ${out}/all.o ${out}/sluice.o
  COMMAND ${CMAKE_COMMAND} -E rm -f ${out}/libsluice.a
  COMMAND ${CMAKE_AR} rcsD ${out}/libsluice.a ${out}/sluice.o
  COMMAND ${CMAKE_C_COMPILER} -shared -o ${out}/${so}
    -Wl,-soname,libsluice.so.${soversion} -Wl,-z,relro,-z,now,-z,defs
    -Wl,--as-needed ${out}/sluice.o ${libraries} -pthread
  DEPENDS ${parts} sluice_proto ${PROJECT_SOURCE_DIR}/client/lib/exports
  COMMAND_EXPAND_LISTS VERBATIM)
add_custom_target(sluice_installed_library ALL
  DEPENDS ${out}/libsluice.a ${out}/${so})

install(FILES ${out}/libsluice.a DESTINATION ${CMAKE_INSTALL_LIBDIR}
  COMPONENT dev)
install(FILES ${out}/${so} DESTINATION ${CMAKE_INSTALL_LIBDIR}
  COMPONENT library)
# sluice_install_link(COMPONENT NAME)
function(sluice_install_link component name)
  install(CODE "
    set(at \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}\")
    file(CREATE_LINK ${so} \"\${at}/${name}\" SYMBOLIC)"
    COMPONENT ${component})
endfunction()
sluice_install_link(library libsluice.so.${soversion})
sluice_install_link(dev libsluice.so)

# client.h and the headers that it includes, in the tree's own folders.
foreach(header client/lib/client.h client/lib/client_core.h
    common/base/limit.h common/base/status.h common/base/timer.h
    common/sampling/sampling.h common/wire/frame.h common/wire/method.h
    common/wire/node_io.h proto/limits.h)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} COMPONENT dev
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice/${folder})
endforeach()
install(FILES client/lib/installed.h RENAME client.h COMPONENT dev
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice)
install(DIRECTORY ${PROJECT_BINARY_DIR}/proto/ COMPONENT dev
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice/proto
  FILES_MATCHING PATTERN "*.pb-c.h" PATTERN CMakeFiles EXCLUDE)
install(FILES client/lib/example.c COMPONENT dev
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libsluice-dev/examples)
install(CODE "
  set(PROJECT_VERSION ${PROJECT_VERSION})
  set(SLUICE_PC_PRIVATE \"${SLUICE_PC_PRIVATE}\")
  set(prefix \${CMAKE_INSTALL_PREFIX})
  set(libdir \"\\\${prefix}/${CMAKE_INSTALL_LIBDIR}\")
  set(includedir \"\\\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}\")
  configure_file(${PROJECT_SOURCE_DIR}/client/lib/sluice.pc.in
    \"\$ENV{DESTDIR}\${prefix}/${CMAKE_INSTALL_LIBDIR}/pkgconfig/sluice.pc\"
    @ONLY)"
  COMPONENT dev)
