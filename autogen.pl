#!/usr/bin/env perl
# SPDX-License-Identifier: BSD-3-Clause
#
# Makes configure and the Makefile.in files, after checking that the tools for it are installed.
# Usage: ./autogen.pl        (then ./configure && make && make install)

use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);

# program => Debian package
my @tools = (
    ["autoconf",   "autoconf"],
    ["automake",   "automake"],
    ["libtoolize", "libtool"],
    ["m4",         "m4"],
    ["pkg-config", "pkg-config"],
);

sub on_path {
    my ($program) = @_;
    return grep { -x "$_/$program" } split(/:/, $ENV{PATH} // "");
}

my @missing = grep { !on_path($_->[0]) } @tools;
if (@missing) {
    print STDERR "autogen.pl: these tools are missing:\n";
    printf STDERR "  %-12s Debian package %s\n", @$_ for @missing;
    print STDERR "To install them: apt-get install ", join(" ", map { $_->[1] } @missing), "\n";
    exit 1;
}

my $top = dirname(abs_path($0));
chdir($top) or die "autogen.pl: cannot enter $top: $!\n";
# All files that the tools copy here go to this one folder.
-d "config/generated" or mkdir("config/generated") or die "autogen.pl: config/generated: $!\n";

system("autoreconf", "--install", "--force") == 0
    or die "autogen.pl: autoreconf failed; its messages are above\n";
print "autogen.pl: done. Next: ./configure && make && make install\n";
