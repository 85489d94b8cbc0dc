"""English short forms, none of them a word itself, and what they stand for: the splitter knows that a sentence goes on
behind them before a small letter or a digit, and the reader says them in full."""

from __future__ import annotations

SHORT_ENGLISH: dict[str, str] = {
    short: (long or short).replace("_", " ")
    for short, _, long in (entry.partition("=") for entry in (
        "abbr=abbreviation abt=about acad=academy acct=account addl=additional addn=addition addr=address "
        "advt=advertisement agcy=agency agmt=agreement agt=agent amdt=amendment amt=amount anniv=anniversary "
        "anon=anonymous appl=application approx=approximately appt=appointment arg=argument args=arguments "
        "assoc=associate assocs=associates asstd=assorted atchd=attached att=attached attd=attached attn=attention "
        "attr=attribute atty=attorney attys=attorneys auth=authorization avail=available avg=average batt=batteries "
        "bd=board bdrm=bedroom bdrms=bedrooms bdry=boundary biog=biography bk=book bkfst=breakfast bkft=breakfast "
        "bkg=booking bkgd=background bks=books bldgs=buildings blk=block blks=blocks bot=bottom brn=brown "
        "bsmt=basement btwn=between cert=certificate certs=certificates chem=chemistry chg=charge chgs=charges "
        "chol=cholesterol cmt=comment cmte=committee cnr=corner cntr=center cnty=county coeff=coefficient "
        "commr=commissioner compl=complaint conc=concentration cond=condition conf=conference constr=construction "
        "cont=continued contd=continued contr=contractor conv=conversation coord=coordinator corr=correction "
        "crs=course cthse=courthouse ctr=center ctrs=centers cttee=committee cty=county cust=customer cyl=cylinder "
        "dbl=double ded=deductible deg=degrees deliv=delivery depr=depreciation descr=description diag=diagnosis "
        "diam=diameter dims=dimensions dir=director disc=discount disch=discharge distr=distributor dlvry=delivery "
        "dlvy=delivery docs=documents doz=dozen dwg=drawing ea=each econ=economics edn=edition educ=education "
        "elec=electric elem=elementary elev=elevation emp=employee enc=enclosed encl=enclosed encs=enclosures "
        "engr=engineer engrg=engineering enl=enlarged ent=entrance equip=equipment equiv=equivalent err=error "
        "estd=established eval=evaluation exch=exchange exec=executive expt=experiment extn=extension fam=family "
        "fcst=forecast fed=federal fert=fertilizer flr=floor flt=flight fncd=fenced freq=frequency frt=freight "
        "frwy=freeway frz=frozen furn=furnished gar=garage govt=government grp=group gtd=guaranteed gtr=guitar "
        "gtrs=guitars hdcp=handicap hdg=heading hdqrs=headquarters hist=history hosp=hospital hr=hour hrg=hearing "
        "hrs=hours hse=house ht=height hwys=highways illus=illustrated immed=immediately impt=important "
        "incr=increase indiv=individual inj=injection ins=insurance instr=instructor inv=invoice irreg=irregular "
        "jnl=journal lang=language ldg=loading ldgs=landings lg=large lic=license loc=location ltr=letter "
        "ltrs=letters luth=Lutheran lvl=level lvls=levels maint=maintenance mbr=member mbrs=members mdl=model "
        "mdse=merchandise mech=mechanical med=medium mfd=manufactured mfg=manufacturing mfr=manufacturer "
        "mgmt=management mgr=manager mgt=management mil=military mkt=market mktg=marketing mo=month mod=model "
        "mos=months mtg=meeting mth=month mths=months mtn=mountain mvmt=movement mvt=movement neg=negative "
        "num=number obj=objective obs=observation occas=occasionally ofc=office offc=office opp=opposite "
        "opt=optional opts=options orch=orchestra org=organization orig=original pct=percent pd=paid "
        "perf=performance perm=permanent pers=persons pharm=pharmacy phys=physical pkg=package pkgs=packages "
        "platf=platform pltf=plaintiff pmt=payment pmts=payments poss=possibly pract=practice pref=preferred "
        "prelim=preliminary prem=premium prev=previous prin=principal prkg=parking prob=probably proc=procedure "
        "prod=produced prog=program proj=project props=properties prov=province publ=published "
        "purch=purchase pymt=payment qtly=quarterly qtr=quarter qtrly=quarterly qtrs=quarters qty=quantity "
        "rcd=received rcpt=receipt rcpts=receipts recd=received refrig=refrigerator regd=registered regs=regulations "
        "repl=replacement rept=report reqd=required res=reserved resv=reservation ret=retired rm=room rms=rooms "
        "rnd=round rtg=rating rtgs=ratings rts=rights rxn=reaction schl=school sci=science secy=secretary "
        "sem=semester seq=sequence sess=session sgd=signed sgl=single shpg=shipping shpt=shipment shwr=shower "
        "sm=small smkg=smoking soln=solution spec=specification specs=specifications sta=station std=standard "
        "stds=standards stmt=statement struct=structure subj=subject subsid=subsidiary subsids=subsidiaries "
        "supv=supervisor surg=surgery susp=suspension svc=service svcs=services svgs=savings sym=symphony "
        "symp=symposium sys=system sz=size tbl=table tkt=ticket tkts=tickets tng=training tog=together tol=tolerance "
        "tot=total transp=transportation trk=track trks=tracks twp=township txn=transaction txns=transactions "
        "typ=typically unabr=unabridged unfurn=unfurnished unk=unknown util=utilities utils=utilities vac=vacation "
        "veh=vehicle vit=vitamin vocab=vocabulary vols=volumes wdth=width whse=warehouse wk=week wkly=weekly "
        "wks=weeks wt=weight yd=yard yld=yield yr=year yrly=yearly yrs=years"
    ).split())
}  # fmt: skip
ALSO_WORDS = frozenset(
    "arg args avail bot cond conf conv def dir disc docs emp ent eval err exec fam fed gar hist ins lang lic loc mech "
    "med mil mo mod num obj "
    "obs opt org perf pref prem prin prob prod prog proj props prov res ret sem sess sm spec specs vac vocab auth "
    "struct diag regs".split()
)
"""Short forms that are said as they stand too: at the end of a sentence they are left alone."""
