"""The vectors that the IQ1, IQ2 and IQ3 schemes choose from, as the format defines them.

A codebook is a set of vectors of 4 or 8 levels. Read as numbers to the base of their levels, first element lowest, its
vectors stand in ascending order: so a set of bits says which belong to it, and 2 KB hold all six. Made when first used.
Source: the tables of ggml-common.h; a test holds hashes of what comes out against them.
"""

from __future__ import annotations

import base64
import zlib
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

_IQ2_XXS = (
    "c-nPRORj`4470MbdWwiuj~R8vF<3s$DPNNQV8mEdDvh1mfzMz4@MsNM4-"
    "kL~Dg?0u3Z<Q}s#5&i%a^YL7=qILyw)W4Cso8iRnlpCLd`c4Du;C<RlH?aajd+e<FY7)k8>WSTt@47wX1jPqB41q=2e+&9hy;#r#nzQ(d`wV"
    "2I-N(E<X_7hks$x7)Do8!;TEvZcdv+$;Bf*s-;99+U-&7)=?KnsoS&M%ZZjW8ztGaG<oin^)>q~!#84@<5Q?C;cAe-"
    "jqH$lW6s<jvF<nQc*Z$~yKl@H%B$)D{-`Y{-_v~Aze0c0{sHUUCpi"
)
_IQ2_XS = (
    "c-mc2ORj`4470L|dWwh@;*?QWh*MOoP)|Aew9xme83;|{*iP^L>UVu^J$f&9<)%0;rYcZH@zkTcz*1-"
    "`0#F4vd)cqIa~EY0S(m36us~sl4e+uqnt+xnD5p1ifdk&k2^cqyDKl&hVwLuN#<u{Y#82-"
    "D2r2AS*#~B;6>b%zZ?$An2Qav5OyP;?IjC1*OUa>YNXBOJs!l*N%2M9ag1pZ#qbS<pDODX)Ys@FiGwcn?g7z}ZUJ85J?WuXe7)kq!xj_MC=s"
    "ehbo`f6hw91-EjVApg;SBK(#S-"
    "ctqy5bslAAu_xaBeODLPcR%XL4jpOCvsj1dP@iIwgyVBr<uBI!nKMuUZZ1qQNNP<bV}FGN4KvRv{ky>(2~*Gt;x6q$P={6Cb#@3Dfxx_wWh`"
    "vWo0U*P"
)
_IQ2_S = (
    "c-n1JOKt@r42!agI0c#&;*=39#3>LflvCCTO#7-"
    "9jpk=;Y=fB%TefG%OIlXuE_Fz<Ougf=%xu>+l3Bq8hyjg~lMrunmZ<Wy`~YGiEi#3On5vBd<vmKZSi%aW(psKWGWlAsphF>8rUC+;ZDfa(=s"
    "@_F#i0yss$-8fvv#Vf@jNV{kuiVLgA~66J1A2@4RVJKUxH}IH-"
    "$JpaZ^g})pmKjjd>lmojtPqGOJ!xqXVV(I)s3f1HneH&<4|id_Zsqi~d9|fZw$~1nHWO$bgs-"
    "@JBFei6qb36Asxo<#s4;BRhd~d<sfnbhG0<$t^)oE$@gK%zO1xyELVB%s1k`FAKZeJ@WjCtPZ6s4%XC=!ChZ<C{I5t%jB|RQ$q0^0H^%ZVVC"
    "dNfJ9HPfzZdmWSrg_I({bPgptf%^rJMcpz`hTS7u<>s9rVvW-WSa`T|j+oGk"
)
_IQ3_XXS = (
    "c-l=-K?=h#3{ye}VW$qZd!FLL9+1HvWO^EVh1sdkoaHp#R7#szmgHo6m{j1}>~2z^o7e*jro|>W6f;suxGq5ThwwrH-"
    "tdy3S=*8VCKknJ;ww~xN=C-Lt2kc1f`n?I#<sN&{qc;xi`rsIog^>xCi>0vO72GEj+P?`#G30*;dkafo0(MD70~26E5oy)Fh-"
    "PS2J_iYxE!Gh>5A3e2Aw8l#Lz*UZ2xyz&!sE!Xy7=t?heopubnm$;UMyR4j1Wf!f;*xLWT6+u!rw*Hy!tqyDZ17JdzPtf@!~_J7yrh&WtZi"
)
_IQ3_S = (
    "c-k#dK}rKb5Ud?m7(7iN59ovqtiR~U2pdlmS^v`sIn3TR;sZue5Z@6$Amj-`@D=vV+J}a&>aMEU{rNq)_mDQ1)6rXa`g-zl6)-xV9&D<-"
    "%sLtw(&E+K!8jAZAn=FIh`{BX?s3iZ9eL!0y{saQwa{i<M_rV8i?Gza!ZNf5Tx$=B>&%}&x2aFnb2>I1DZfG3@eJJ?w}Hf9jj>U<u}qaX$V("
    "Q{%bJZi0qBwX8+P2=0D&xpG^*kpx3aC_+^woo1gDy;frCMb5s>PfCelExhl@Z5=M_J&lZwQK<TIaOt1Nd_t_Z4Nkqr(Irw~QLK*sjOloy2EU"
    "U#sN3YKfvLC9pG+yhGG#kO><KBF1{I~{B$E!8AqIlE}-BNQAl`R33C|JNFjj93D(#a!oZudm_a(c~OHe<Yb)Y4R?AVbTWv01QA~hX"
)
_IQ1_S = (
    "c-k#eO>0z16uqyx#k83y_qA0qE*kA7fk#%6iL;cd<W&+S(JE7AEBc6nlGQ*KX*Z#@1057+gows$6w-"
    "}Cbfte_m;o2UY|_#*VZa~*x^U%6T=`Mm&aUdhx#ygF&eKOplgaU0)cQ?aLaWb`!=%}lC@i-gZEZ5CFdhU_><`D{U2pdIZAiiRBZ^Tjpc--1m"
    "jt-&r-"
    "O_l7bZy)3*%3zRUeyRXfJ~s5?<5PM<UK4aB<I3L}>n{hnc{+>K$G67mn>zvR$=UOtZPa7LUsmQWQ2bN)ou!Kj_yfb~LQyR=nku)`P+=g=?+G"
    "NRyF#AueD^;Yg67k)HG=(os>Uh!rG~(gRxZza2HhyPsM)=qh9|ehXUldkU;_wA!C+2Fv`rcq!34!0Fqz%0;&7#XeAmBu`}t6ci#>+3WlSwzI"
    "Ty{$0C$RU8lhlWkibbyz6nxOL=l|4%yAAJ4G^LV^S*V!(*CwdNU%)Qrh$#q9cyW*tq|@QQ}j896#XTv`6q5lhc&*LLPVeEGcad$xT4&D*b^F"
    "V9bJ+^}ih*A`2jX2rIue$9q9{)`S!jt!g=X1D{vGEMnukjj}Wcvs!oqc~_d61@aP1V3Bvcjc9uWpgt6=l#-;vm1GpU-HX*>(|GJ!F2C{R9{8"
    "qA7trFiLFJ0VD+S2Ny_0+jiaiUvPbU!Gt<44HyL$nQ%A{iI)xZW(;0iU=zRoe)YSg8LFF!L&Ei&Q)FngSxd==b)ez8IIEAq?gCPR1z1`cE#s"
    "vx$dBcgrdMr~`+vY{G*{j)LdH7J(;|V_S3+rEqj0{aUGZ~5`z3=#nUT2ypkIbf^7Qd%#dKF#22&cWI$B=(k{y*i-P-"
    "%7a6aqltG8tC11XWn$8wuQe)#`Rb$ezM@h+=MX6ehv4>@KW-1MD8)wE"
)

_EIGHTS: Final = (8, 25, 43)
_THIRDS: Final = (-1, 0, 1)
_BOOKS: Final[dict[str, tuple[str, int, tuple[int, ...]]]] = {
    "IQ1": (_IQ1_S, 8, _THIRDS),
    "IQ2_XXS": (_IQ2_XXS, 8, _EIGHTS),
    "IQ2_XS": (_IQ2_XS, 8, _EIGHTS),
    "IQ2_S": (_IQ2_S, 8, _EIGHTS),
    "IQ3_XXS": (_IQ3_XXS, 4, (4, 12, 20, 28, 36, 44, 52, 62)),
    "IQ3_S": (_IQ3_S, 4, (1, 3, 5, 7, 9, 11, 13, 15)),
}


@cache
def codebook(name: str) -> npt.NDArray[np.int8]:
    """[vectors, elements of one]: the codebook of a scheme; IQ1_S and IQ1_M share "IQ1". Not to be written to."""
    packed, size, levels = _BOOKS[name]
    members = np.flatnonzero(np.unpackbits(np.frombuffer(zlib.decompress(base64.b85decode(packed)), np.uint8)))
    digits = members[:, None] // len(levels) ** np.arange(size) % len(levels)
    vectors: npt.NDArray[np.int8] = np.array(levels, np.int8)[digits]
    vectors.flags.writeable = False
    return vectors


@cache
def sign_codes() -> npt.NDArray[np.uint8]:
    """[128]: eight signs from seven bits. The last sign makes the number of minus signs even."""
    codes = np.arange(128, dtype=np.uint8)
    odd = np.unpackbits(codes[:, None], axis=1).sum(axis=1, dtype=np.uint8) & np.uint8(1)
    signs: npt.NDArray[np.uint8] = codes | odd << np.uint8(7)
    return signs
