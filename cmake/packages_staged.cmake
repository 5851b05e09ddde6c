# Finishes the staged files of the packages: strips, compresses manual pages and
# changelogs, and sets all times to SOURCE_DATE_EPOCH.  CPack runs it before it
# packs.
set(staged ${CPACK_TEMPORARY_DIRECTORY})

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(GLOB programs ${staged}/*/usr/bin/*)
file(GLOB shared ${staged}/*/usr/lib/*/libsluice.so.*.*)
file(GLOB static ${staged}/*/usr/lib/*/libsluice.a)
run(strip --remove-section=.comment --remove-section=.note ${programs})
run(strip --strip-unneeded --remove-section=.comment --remove-section=.note
  ${shared})
run(strip -D --strip-debug ${static})
file(CHMOD ${shared} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
file(GLOB texts ${staged}/*/usr/share/man/man*/*.[1-9]
  ${staged}/*/usr/share/doc/*/changelog)
run(gzip -9n ${texts})
# install(DIRECTORY) makes folders whose files all belong to another package.
run(find ${staged} -mindepth 2 -type d -empty -delete)
file(GLOB_RECURSE all LIST_DIRECTORIES true ${staged}/*)
run(touch --no-dereference --date=@$ENV{SOURCE_DATE_EPOCH} ${all})
